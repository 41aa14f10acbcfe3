//! The targets, one in each file.

pub mod binlog;
pub mod changes;
pub mod compress;
pub mod config;
pub mod exchange;
pub mod execute;
pub mod login_client;
pub mod login_server;
pub mod packet;
pub mod proxy_header;
pub mod sql;
pub mod track;
