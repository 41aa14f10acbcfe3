//! Reads replies, and notes what is in them.

use anyhow::bail;
use net::query::Client;
use wire::codec::Reader;
use wire::reply::{self, Prepared};
use wire::{Capabilities, Status, packet};

use super::Slot;
use crate::observe::{Observer, Seen};

/// Reads one reply.
pub(super) struct Reading<'a> {
    client: &'a mut Client,
    observer: Observer<'a>,
    lines: &'a mut Vec<String>,
    sequence: u8,
    columns: Vec<Seen>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(client: &'a mut Client, observer: Observer<'a>, lines: &'a mut Vec<String>) -> Reading<'a> {
        Reading { client, observer, lines, sequence: 0, columns: Vec::new() }
    }

    /// The schema that the session is in behind the reply.
    pub(super) fn schema(self) -> String {
        self.observer.schema.into_inner()
    }

    async fn packet(&mut self) -> anyhow::Result<Vec<u8>> {
        let (sequence, payload) = self.client.read_raw().await?;
        self.sequence = self.sequence.wrapping_add(1);
        if sequence != self.sequence {
            self.lines.push(format!("sequence number {sequence} instead of {}", self.sequence));
            self.sequence = sequence;
        }
        if payload.is_empty() {
            bail!("an empty packet");
        }
        Ok(payload)
    }

    fn error(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        self.lines.push(self.observer.error(payload)?.0);
        Ok(())
    }

    pub(super) async fn results(&mut self, binary: bool) -> anyhow::Result<()> {
        loop {
            let head = self.packet().await?;
            let status = match head[0] {
                reply::OK => {
                    let (line, status) = self.observer.ok(&head, "ok")?;
                    self.lines.push(line);
                    status
                }
                reply::ERR => return self.error(&head),
                reply::LOCAL_INFILE => bail!("a file is asked for"),
                _ => {
                    let count = Reader::new(&head).lenenc("column count")?;
                    self.lines.push(format!("{count} columns"));
                    self.columns(count).await?;
                    let classic = !self.observer.capabilities.contains(Capabilities::DEPRECATE_EOF);
                    let mut open = false;
                    if classic {
                        let eof = self.packet().await?;
                        let (line, status) = self.observer.eof(&eof, "rows follow")?;
                        self.lines.push(line);
                        open = status.contains(Status::CURSOR_EXISTS);
                        if open {
                            return Ok(());
                        }
                    }
                    match self.rows(binary).await? {
                        Some(status) if !open => status,
                        _ => return Ok(()),
                    }
                }
            };
            if !status.contains(Status::MORE_RESULTS) {
                return Ok(());
            }
        }
    }

    async fn columns(&mut self, count: u64) -> anyhow::Result<()> {
        self.columns.clear();
        for _ in 0..count {
            let packet = self.packet().await?;
            let (line, seen) = self.observer.column(&packet)?;
            self.lines.push(line);
            self.columns.push(seen);
        }
        Ok(())
    }

    /// Reads rows up to their end; gives the status there, or nothing after an error.
    pub(super) async fn rows(&mut self, binary: bool) -> anyhow::Result<Option<Status>> {
        loop {
            let row = self.packet().await?;
            match row[0] {
                reply::ERR => return self.error(&row).map(|()| None),
                reply::EOF if row.len() < packet::PAYLOAD_BYTES_MAX => {
                    let (line, status) = self.observer.eof(&row, "end")?;
                    self.lines.push(line);
                    return Ok(Some(status));
                }
                _ if binary => self.lines.push(self.observer.binary_row(&row, &self.columns)),
                _ => self.lines.push(self.observer.text_row(&row, &self.columns)?),
            }
        }
    }

    pub(super) async fn ok_or_eof(&mut self) -> anyhow::Result<()> {
        let packet = self.packet().await?;
        let line = match packet[0] {
            reply::ERR => return self.error(&packet),
            reply::EOF if packet.len() == 5 => {
                let eof = reply::Eof::parse(&packet)?;
                format!("eof {:?} warnings={}", eof.status, eof.warnings)
            }
            reply::EOF => self.observer.ok(&packet, "end")?.0,
            _ => self.observer.ok(&packet, "ok")?.0,
        };
        self.lines.push(line);
        Ok(())
    }

    pub(super) async fn fields(&mut self) -> anyhow::Result<()> {
        loop {
            let packet = self.packet().await?;
            match packet[0] {
                reply::ERR => return self.error(&packet),
                reply::EOF => {
                    self.lines.push(self.observer.eof(&packet, "end")?.0);
                    return Ok(());
                }
                _ => self.lines.push(self.observer.column(&packet)?.0),
            }
        }
    }

    pub(super) async fn prepared(&mut self) -> anyhow::Result<Option<Slot>> {
        let head = self.packet().await?;
        if head[0] == reply::ERR {
            self.error(&head)?;
            return Ok(None);
        }
        let Prepared { statement, columns, parameters, warnings } = Prepared::parse(&head)?;
        self.lines.push(format!("prepared columns={columns} parameters={parameters} warnings={warnings}"));
        for count in [parameters, columns] {
            self.columns(u64::from(count)).await?;
            if count > 0 && !self.observer.capabilities.contains(Capabilities::DEPRECATE_EOF) {
                let eof = self.packet().await?;
                self.lines.push(self.observer.eof(&eof, "end of metadata")?.0);
            }
        }
        Ok(Some(Slot { id: statement, parameters }))
    }
}
