//! The configuration file that a lab server is started with.

use std::fmt::Write;
use std::path::Path;

use super::ServerOptions;
use crate::Family;

/// Values that change from start to start, beside the options.
pub(super) struct StartValues<'a> {
    pub(super) folder: &'a Path,
    pub(super) port: u16,
    pub(super) read_only: bool,
    pub(super) as_root: bool,
}

/// The text of `server.cnf`. Lines of the options come last, so that they win.
pub(super) fn text(options: &ServerOptions, values: &StartValues<'_>) -> String {
    let folder = values.folder.display();
    let (port, server_id) = (values.port, options.server_id);
    let mut text = format!(
        "[mysqld]\n\
         datadir={folder}/data\n\
         socket={folder}/s.sock\n\
         pid_file={folder}/server.pid\n\
         tmpdir={folder}/tmp\n\
         bind_address=127.0.0.1\n\
         port={port}\n\
         server_id={server_id}\n\
         report_host=127.0.0.1\n\
         report_port={port}\n\
         skip_name_resolve=ON\n\
         local_infile=ON\n\
         secure_file_priv={folder}/tmp\n\
         max_connections=500\n\
         back_log=1024\n\
         performance_schema=OFF\n"
    );
    // Small, so that tens of servers fit on a small machine. Native asynchronous I/O is a scarce resource of the whole
    // machine, and containers often forbid it.
    text.push_str(
        "innodb_buffer_pool_size=32M\n\
         innodb_use_native_aio=OFF\n\
         innodb_doublewrite=OFF\n\
         innodb_lock_wait_timeout=10\n",
    );
    if values.as_root {
        text.push_str("user=root\n");
    }
    // 2, not 0: what is committed is with the operating system, so that it survives `kill -9` of the server.
    text.push_str(if options.durable {
        "innodb_flush_log_at_trx_commit=1\nsync_binlog=1\n"
    } else {
        "innodb_flush_log_at_trx_commit=2\nsync_binlog=0\n"
    });
    let _ = writeln!(text, "read_only={}", if values.read_only { "ON" } else { "OFF" });
    match options.family {
        Family::MariaDb => mariadb(&mut text, options),
        Family::MySql => mysql(&mut text, options),
    }
    for line in &options.config {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn mariadb(text: &mut String, options: &ServerOptions) {
    text.push_str("innodb_log_file_size=16M\ninnodb_temp_data_file_path=ibtmp1:4M:autoextend\n");
    if options.gtid {
        text.push_str(
            "log_bin=binlog\n\
             log_slave_updates=ON\n\
             binlog_format=ROW\n\
             relay_log=relay\n\
             relay_log_recovery=ON\n\
             gtid_strict_mode=ON\n\
             slave_net_timeout=10\n",
        );
    }
    match &options.tls {
        Some(files) => tls_files(text, files),
        None => text.push_str("ssl=OFF\n"),
    }
}

fn mysql(text: &mut String, options: &ServerOptions) {
    text.push_str("innodb_redo_log_capacity=16M\nmysqlx=OFF\nlog_error_verbosity=2\n");
    if options.gtid {
        text.push_str(
            "log_bin=binlog\n\
             log_replica_updates=ON\n\
             relay_log=relay\n\
             relay_log_recovery=ON\n\
             gtid_mode=ON\n\
             enforce_gtid_consistency=ON\n\
             replica_net_timeout=10\n",
        );
    } else {
        text.push_str("skip_log_bin\n");
    }
    match &options.tls {
        Some(files) => tls_files(text, files),
        // The certificates that MySQL makes for itself would turn TLS on; no permitted version turns it off.
        None => text.push_str("tls_version=\n"),
    }
}

fn tls_files(text: &mut String, files: &super::TlsFiles) {
    let _ = writeln!(text, "ssl_ca={}", files.authority.display());
    let _ = writeln!(text, "ssl_cert={}", files.certificate.display());
    let _ = writeln!(text, "ssl_key={}", files.key.display());
}
