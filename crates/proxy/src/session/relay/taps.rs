//! The taps of a relay: all that reads a reply on its way, or changes it.
//!
//! Rows are not read but for a tap, and this is the one list of them. The bytes of a reply pass them in this order: [`Taps::sum`]
//! sees them as the server sent them, [`Taps::change`] may give the client others, and [`Taps::copy`] sees those that the client gets.

use wire::exchange::Event;

use super::Copied;
use crate::outgoing::Columns;
use crate::session::checksum::Checksum;
use crate::session::processes::Renumber;

/// The taps of one reply.
#[derive(Debug, Default)]
pub struct Taps {
    /// The checksum, for a transaction that may have to be replayed.
    pub sum: Option<Checksum>,
    /// The change of columns and rows.
    pub change: Option<RowChange>,
    /// The copy, for the result cache.
    pub copy: Option<Box<Copied>>,
}

impl Taps {
    /// Bytes of columns and rows came from the server.
    #[inline]
    pub fn came(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.bytes(bytes);
        }
    }

    /// A packet came that is neither a column nor a row.
    #[inline]
    pub fn packet_came(&mut self, event: &Event<'_>) {
        if let Some(sum) = &mut self.sum {
            sum.event(event);
        }
    }

    /// Bytes go to the client.
    #[inline]
    pub fn goes(&mut self, bytes: &[u8]) {
        if let Some(copy) = &mut self.copy {
            copy.take(bytes);
        }
    }
}

/// A change of the columns and rows of a result on its way to the client.
#[derive(Debug)]
pub enum RowChange {
    /// The rows of a list of processes.
    Processes(Box<Renumber>),
    /// How columns are described.
    Columns(Box<Columns>),
}

impl RowChange {
    /// Takes columns and rows, perhaps cut; gives false when no more is to be taken, and all of them is got by [`RowChange::give_up`].
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        match self {
            RowChange::Processes(renumber) => renumber.take(bytes),
            RowChange::Columns(columns) => !columns.take(bytes),
        }
    }

    /// Gives the bytes that were taken last.
    pub fn give_up(self) -> Vec<u8> {
        match self {
            RowChange::Processes(renumber) => renumber.give_up(),
            RowChange::Columns(mut columns) => columns.give(),
        }
    }

    /// Gives the packets that were taken, whole ones by now. `is_end`: the result is over, and its last packet follows.
    pub fn give(&mut self, is_end: bool) -> Vec<u8> {
        match self {
            RowChange::Processes(renumber) => renumber.give(is_end),
            RowChange::Columns(columns) => columns.give(),
        }
    }

    /// The sequence number of a packet behind those that were given.
    pub fn sequence_for(&mut self, came_with: u8) -> u8 {
        match self {
            RowChange::Processes(renumber) => renumber.sequence_for(came_with),
            RowChange::Columns(_) => came_with,
        }
    }
}
