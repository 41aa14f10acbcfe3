//! Reading a whole reply.

use wire::codec::{Malformed, Reader};
use wire::handshake::ServerError;
use wire::reply::{self, Eof};
use wire::{Capabilities, Status};

use super::result::{Column, ResultSet, text_row};
use super::statement::binary_row;
use super::{Client, QueryError};

/// Columns of one result; servers stop at 4096.
const COLUMNS_MAX: u64 = 4096;

impl Client {
    /// Reads all results of a command.
    pub(super) async fn results(&mut self, binary: bool) -> Result<Vec<ResultSet>, QueryError> {
        let mut results = Vec::new();
        loop {
            results.push(self.result(binary).await?);
            if !self.status.contains(Status::MORE_RESULTS) {
                return Ok(results);
            }
        }
    }

    async fn result(&mut self, binary: bool) -> Result<ResultSet, QueryError> {
        let (sequence, head) = self.reply_packet().await?;
        match head.first() {
            Some(&reply::OK) => return self.ended(&head, Vec::new(), Vec::new()),
            Some(&reply::LOCAL_INFILE) => {
                // No file is ever given: an empty packet says so, and the server's answer is the result.
                self.send_with(sequence.wrapping_add(1), b"").await?;
                let (_, verdict) = self.reply_packet().await?;
                return self.ended(&verdict, Vec::new(), Vec::new());
            }
            _ => {}
        }
        let count = Reader::new(&head).lenenc("result: number of columns")?;
        if count == 0 || count > COLUMNS_MAX {
            return Err(Malformed("result: number of columns").into());
        }
        let columns = self.columns(count).await?;
        if !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let eof = self.eof().await?;
            if eof.status.contains(Status::CURSOR_EXISTS) {
                self.status = eof.status;
                return Ok(ResultSet { columns, status: eof.status, warnings: eof.warnings, ..ResultSet::default() });
            }
        }
        self.rows(columns, binary).await
    }

    /// Reads rows up to their end.
    pub(super) async fn rows(&mut self, columns: Vec<Column>, binary: bool) -> Result<ResultSet, QueryError> {
        let mut rows = Vec::new();
        loop {
            let (_, packet) = self.reply_packet().await?;
            if packet.first() == Some(&reply::EOF) && packet.len() < wire::packet::PAYLOAD_BYTES_MAX {
                return self.ended(&packet, columns, rows);
            }
            rows.push(if binary { binary_row(&packet, &columns)? } else { text_row(&packet, columns.len())? });
        }
    }

    pub(super) async fn columns(&mut self, count: u64) -> Result<Vec<Column>, QueryError> {
        let mut columns = Vec::new();
        for _ in 0..count {
            let (_, packet) = self.reply_packet().await?;
            columns.push(Column::parse(&packet)?);
        }
        Ok(columns)
    }

    pub(super) async fn eof(&mut self) -> Result<Eof, QueryError> {
        let (_, packet) = self.reply_packet().await?;
        if packet.first() != Some(&reply::EOF) {
            return Err(Malformed("no EOF behind the columns").into());
        }
        Ok(Eof::parse(&packet)?)
    }

    /// The next packet that is neither an error nor a progress report.
    pub(super) async fn reply_packet(&mut self) -> Result<(u8, Vec<u8>), QueryError> {
        loop {
            let (sequence, payload) = self.packet(usize::MAX).await?;
            match payload.first() {
                None => return Err(Malformed("empty packet in a reply").into()),
                Some(&reply::ERR) => {
                    let error = ServerError::parse(&payload)?;
                    if error.code != reply::PROGRESS_CODE {
                        return Err(error.into());
                    }
                }
                Some(_) => return Ok((sequence, payload)),
            }
        }
    }

    fn ended(&mut self, end: &[u8], columns: Vec<Column>, rows: Vec<super::Row>) -> Result<ResultSet, QueryError> {
        let is_eof = end.first() == Some(&reply::EOF) && !self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let mut result = ResultSet { columns, rows, ..ResultSet::default() };
        if is_eof {
            let eof = Eof::parse(end)?;
            (result.status, result.warnings) = (eof.status, eof.warnings);
        } else {
            let ok = reply::Ok::parse(end, self.capabilities)?;
            (result.affected, result.last_insert_id) = (ok.affected_rows, ok.insert_id);
            (result.status, result.warnings) = (ok.status, ok.warnings);
            result.info = String::from_utf8_lossy(ok.info).into_owned();
            result.session_state = ok.session_state.to_vec();
        }
        self.status = result.status;
        Ok(result)
    }
}
