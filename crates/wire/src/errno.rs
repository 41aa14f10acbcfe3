//! Errors of servers and of their client library that Sqluice knows, by the servers' own names.
//!
//! Sources: MariaDB's `mysqld_error.h` and `errmsg.h`, MySQL's `perror`. A code means the same in both families where no family is
//! named. Names that differ are MariaDB's, with MySQL's beside them.

/// A disk is full.
pub const ER_DISK_FULL: u16 = 1021;
/// The server has as many connections as `max_connections` allows.
pub const ER_CON_COUNT_ERROR: u16 = 1040;
/// There is no memory for what a client wants.
pub const ER_OUT_OF_RESOURCES: u16 = 1041;
/// The login was not understood.
pub const ER_HANDSHAKE_ERROR: u16 = 1043;
/// The user may not enter this schema.
pub const ER_DBACCESS_DENIED_ERROR: u16 = 1044;
/// Wrong password, no such user, or a missing privilege.
pub const ER_ACCESS_DENIED_ERROR: u16 = 1045;
/// The session has no schema.
pub const ER_NO_DB_ERROR: u16 = 1046;
/// No such command. Galera says so, too, of a node that is not ready, or has left its group.
pub const ER_UNKNOWN_COM_ERROR: u16 = 1047;
/// NULL in a column that takes none.
pub const ER_BAD_NULL_ERROR: u16 = 1048;
/// No such schema.
pub const ER_BAD_DB_ERROR: u16 = 1049;
/// The server shuts down.
pub const ER_SERVER_SHUTDOWN: u16 = 1053;
/// No such column.
pub const ER_BAD_FIELD_ERROR: u16 = 1054;
/// A value that a unique key has already.
pub const ER_DUP_ENTRY: u16 = 1062;
/// The text is no statement.
pub const ER_PARSE_ERROR: u16 = 1064;
/// The text is empty.
pub const ER_EMPTY_QUERY: u16 = 1065;
/// KILL names no connection.
pub const ER_NO_SUCH_THREAD: u16 = 1094;
/// KILL names a connection that the user may not end.
pub const ER_KILL_DENIED_ERROR: u16 = 1095;
/// No schema can have this name.
pub const ER_WRONG_DB_NAME: u16 = 1102;
/// The statement would read or give too much.
pub const ER_TOO_BIG_SELECT: u16 = 1104;
/// An error without a code of its own.
pub const ER_UNKNOWN_ERROR: u16 = 1105;
/// A table is full, most often because its disk is.
pub const ER_RECORD_FILE_FULL: u16 = 1114;
/// No account of any user may log in from this host.
pub const ER_HOST_NOT_PRIVILEGED: u16 = 1130;
/// An INSERT has more or fewer values than columns.
pub const ER_WRONG_VALUE_COUNT_ON_ROW: u16 = 1136;
/// A privilege on a table is missing.
pub const ER_TABLEACCESS_DENIED_ERROR: u16 = 1142;
/// A privilege on a column is missing.
pub const ER_COLUMNACCESS_DENIED_ERROR: u16 = 1143;
/// No such table.
pub const ER_NO_SUCH_TABLE: u16 = 1146;
/// A command that is switched off.
pub const ER_NOT_ALLOWED_COMMAND: u16 = 1148;
/// A packet is longer than `max_allowed_packet`.
pub const ER_NET_PACKET_TOO_LARGE: u16 = 1153;
/// A packet's number does not follow that of the one before it.
pub const ER_NET_PACKETS_OUT_OF_ORDER: u16 = 1156;
/// SELECT … INTO found more than one row.
pub const ER_TOO_MANY_ROWS: u16 = 1172;
/// A COMMIT failed. Galera says so of a member that lost its group meanwhile.
pub const ER_ERROR_DURING_COMMIT: u16 = 1180;
/// `init_connect` failed, so the session does not begin.
pub const ER_NEW_ABORTING_CONNECTION: u16 = 1184;
/// No such system variable.
pub const ER_UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
/// The user has as many connections as `max_user_connections` allows.
pub const ER_TOO_MANY_USER_CONNECTIONS: u16 = 1203;
/// The wait for a lock took too long. The statement is rolled back, the transaction is not.
pub const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
/// The arguments of a function or a command make no sense.
pub const ER_WRONG_ARGUMENTS: u16 = 1210;
/// A deadlock, or with Galera a lost certification. The transaction is rolled back.
pub const ER_LOCK_DEADLOCK: u16 = 1213;
/// A limit of the user's account is reached.
pub const ER_USER_LIMIT_REACHED: u16 = 1226;
/// A global privilege is missing.
pub const ER_SPECIFIC_ACCESS_DENIED_ERROR: u16 = 1227;
/// A variable does not take this value.
pub const ER_WRONG_VALUE_FOR_VAR: u16 = 1231;
/// The server does not do this.
pub const ER_NOT_SUPPORTED_YET: u16 = 1235;
/// The binary log does not have the transactions that a replica asks for. MySQL: `ER_SOURCE_FATAL_ERROR_READING_BINLOG`.
pub const ER_MASTER_FATAL_ERROR_READING_BINLOG: u16 = 1236;
/// A subquery has more than one row.
pub const ER_SUBQUERY_NO_1_ROW: u16 = 1242;
/// No such prepared statement.
pub const ER_UNKNOWN_STMT_HANDLER: u16 = 1243;
/// The client does not know the plugin that its account demands.
pub const ER_NOT_SUPPORTED_AUTH_MODE: u16 = 1251;
/// A number beyond its column's range.
pub const ER_WARN_DATA_OUT_OF_RANGE: u16 = 1264;
/// A value that lost something in its column.
pub const WARN_DATA_TRUNCATED: u16 = 1265;
/// An option forbids the statement, which the message names: `read_only` is one of them.
pub const ER_OPTION_PREVENTS_STATEMENT: u16 = 1290;
/// A text that is no value of its type.
pub const ER_TRUNCATED_WRONG_VALUE: u16 = 1292;
/// The statement cannot be prepared.
pub const ER_UNSUPPORTED_PS: u16 = 1295;
/// A name that has no meaning in its character set.
pub const ER_INVALID_CHARACTER_STRING: u16 = 1300;
/// No such routine.
pub const ER_SP_DOES_NOT_EXIST: u16 = 1305;
/// KILL QUERY ended the statement, or on MySQL KILL.
pub const ER_QUERY_INTERRUPTED: u16 = 1317;
/// A CALL has more or fewer arguments than its routine.
pub const ER_SP_WRONG_NO_OF_ARGS: u16 = 1318;
/// A column without a default got no value.
pub const ER_NO_DEFAULT_FOR_FIELD: u16 = 1364;
/// A division by zero.
pub const ER_DIVISION_BY_ZERO: u16 = 1365;
/// A text that is no value of its column.
pub const ER_TRUNCATED_WRONG_VALUE_FOR_FIELD: u16 = 1366;
/// A literal that no type has.
pub const ER_ILLEGAL_VALUE_FOR_TYPE: u16 = 1367;
/// A privilege on a routine is missing.
pub const ER_PROCACCESS_DENIED_ERROR: u16 = 1370;
/// The state of the session's XA transaction forbids it; the message names the state.
pub const ER_XAER_RMFAIL: u16 = 1399;
/// A text longer than its column.
pub const ER_DATA_TOO_LONG: u16 = 1406;
/// A value that a function does not take.
pub const ER_WRONG_VALUE_FOR_TYPE: u16 = 1411;
/// An argument of a CALL that is to be set, and is no variable.
pub const ER_SP_NOT_VAR_ARG: u16 = 1414;
/// EXPLAIN of a view whose tables the user may not see.
pub const ER_VIEW_NO_EXPLAIN: u16 = 1345;
/// The prepared statement has no open cursor.
pub const ER_STMT_HAS_NO_OPEN_CURSOR: u16 = 1421;
/// A function or trigger would change a table that the statement which runs it uses.
pub const ER_CANT_UPDATE_USED_TABLE_IN_SF_OR_TRG: u16 = 1442;
/// A foreign key forbids to take this row away.
pub const ER_ROW_IS_REFERENCED_2: u16 = 1451;
/// A foreign key's row is missing.
pub const ER_NO_REFERENCED_ROW_2: u16 = 1452;
/// As many statements are prepared as may be.
pub const ER_MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
/// A table has no partition for this row.
pub const ER_NO_PARTITION_FOR_GIVEN_VALUE: u16 = 1526;
/// A deadlock within an XA transaction, which is rolled back.
pub const ER_XA_RBDEADLOCK: u16 = 1614;
/// A SIGNAL with a code of the application's.
pub const ER_SIGNAL_EXCEPTION: u16 = 1644;
/// A number beyond its expression's range.
pub const ER_DATA_OUT_OF_RANGE: u16 = 1690;
/// An account that is proven without a password refuses this client.
pub const ER_ACCESS_DENIED_NO_PASSWORD_ERROR: u16 = 1698;
/// A write in a READ ONLY transaction.
pub const ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: u16 = 1792;
/// The password has expired: the session may do nothing but change it.
pub const ER_MUST_CHANGE_PASSWORD: u16 = 1820;
/// A command that is shorter or longer than it says.
pub const ER_MALFORMED_PACKET: u16 = 1835;
/// The server is read-only.
pub const ER_READ_ONLY_MODE: u16 = 1836;
/// The password is right and has expired.
pub const ER_MUST_CHANGE_PASSWORD_LOGIN: u16 = 1862;
/// A value that cannot be converted. MariaDB only.
pub const ER_BAD_DATA: u16 = 1918;
/// KILL ended the connection. MariaDB only.
pub const ER_CONNECTION_KILLED: u16 = 1927;
/// A replica's position is not in the binary log. MariaDB only.
pub const ER_GTID_POSITION_NOT_FOUND_IN_BINLOG: u16 = 1945;
/// A replica's position contradicts the binary log. MariaDB only.
pub const ER_MASTER_GTID_POS_CONFLICTS_WITH_BINLOG: u16 = 1947;
/// A replica's position is not in the binary log, and neither is what follows it. MariaDB only.
pub const ER_GTID_POSITION_NOT_FOUND_IN_BINLOG2: u16 = 1955;
/// The statement took longer than `max_statement_time`. MariaDB only; [`ER_QUERY_TIMEOUT`] is MySQL's.
pub const ER_STATEMENT_TIMEOUT: u16 = 1969;
/// MySQL: GET STACKED DIAGNOSTICS outside a handler.
pub const ER_GET_STACKED_DA_WITHOUT_ACTIVE_HANDLER: u16 = 3004;
/// The statement took longer than `max_execution_time`. MySQL only; [`ER_STATEMENT_TIMEOUT`] is MariaDB's.
pub const ER_QUERY_TIMEOUT: u16 = 3024;
/// The server takes administrators only, and has ended all other sessions. MySQL only.
pub const ER_SERVER_OFFLINE_MODE: u16 = 3032;
/// The account is locked. MySQL; MariaDB has the same name for [another code](ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB).
pub const ER_ACCOUNT_HAS_BEEN_LOCKED: u16 = 3118;
/// The server takes TLS or local sockets only. MySQL only.
pub const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// KILL ended the connection while it logged in. MySQL only.
pub const ER_SESSION_WAS_KILLED: u16 = 3169;
/// The account had too many wrong passwords in a row (FAILED_LOGIN_ATTEMPTS). MySQL only; [`ER_USER_IS_BLOCKED`] is MariaDB's.
pub const ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK: u16 = 3955;
/// A row that a CHECK forbids. MariaDB; with MySQL the code is that of something else.
pub const ER_CONSTRAINT_FAILED: u16 = 4025;
/// The client was silent for longer than `wait_timeout`. MySQL; with MariaDB the code is that of something else.
pub const ER_CLIENT_INTERACTION_TIMEOUT: u16 = 4031;
/// A replication group takes no statements on a primary that it moves within a limit of time. MySQL; with MariaDB the code is
/// that of something else.
pub const ER_OPERATION_NOT_ALLOWED_WHILE_PRIMARY_CHANGE_IS_RUNNING: u16 = 4094;
/// The account had too many wrong passwords in a row (`max_password_errors`). MariaDB only.
pub const ER_USER_IS_BLOCKED: u16 = 4150;
/// `ER_ACCOUNT_HAS_BEEN_LOCKED` of MariaDB.
pub const ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB: u16 = 4151;

/// The client library found no socket of that name.
pub const CR_CONNECTION_ERROR: u16 = 2002;
/// The client library could not connect to the host.
pub const CR_CONN_HOST_ERROR: u16 = 2003;
/// The client library does not know the host.
pub const CR_UNKNOWN_HOST: u16 = 2005;
/// The connection ended before the client library sent the command.
pub const CR_SERVER_GONE_ERROR: u16 = 2006;
/// The connection ended after the client library sent the command.
pub const CR_SERVER_LOST: u16 = 2013;
