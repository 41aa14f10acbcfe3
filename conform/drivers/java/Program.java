// The driver matrix by JDBC drivers: `java -cp JARS Program.java connector-j|mariadb`.

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

public class Program {
    static final boolean MARIADB_DRIVER = System.getProperty("driver", "connector-j").equals("mariadb");
    static final boolean MARIADB_SERVER = env("FAMILY").equals("mariadb");
    static final String DATABASE = env("DATABASE"), OTHER = env("OTHER_DATABASE");
    static final byte[] ALL_BYTES = new byte[256];
    static final List<Connection> opened = new ArrayList<>();

    static String env(String name) {
        return System.getenv().getOrDefault("CONFORM_" + name, "");
    }

    static class Skip extends RuntimeException {
        private static final long serialVersionUID = 1;

        Skip(String why) {
            super(why);
        }
    }

    // ------------------------------------------------------------------------------------------------ values as text

    static String digest(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes), 0, 8);
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32 || c > 126) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static String text(Object value) throws Exception {
        if (value == null) return "null";
        if (value instanceof byte[] bytes) {
            return quoted(bytes.length > 300 ? "bytes of " + bytes.length + ": " + digest(bytes) : "0x" + HexFormat.of().formatHex(bytes));
        }
        if (value instanceof List<?> list) {
            StringBuilder out = new StringBuilder("[");
            for (Object item : list) out.append(out.length() > 1 ? "," : "").append(text(item));
            return out.append("]").toString();
        }
        if (value instanceof int[] counts) {
            return quoted(Arrays.toString(counts));
        }
        String found = value.toString().replace(OTHER, "OTHER").replace(DATABASE, "DATABASE").replaceAll("\\b" + env("PORT") + "\\b", "PORT");
        if (found.length() > 300) found = "text of " + found.length() + ": " + digest(found.getBytes(StandardCharsets.UTF_8));
        return quoted(value instanceof String ? found : value.getClass().getSimpleName() + " " + found);
    }

    static void equal(Object got, Object wanted, String what) throws Exception {
        String a = text(got), b = text(wanted);
        if (!a.equals(b)) throw new AssertionError((what + ": got " + a + ", wanted " + b).substring(0, Math.min(900, what.length() + a.length() + b.length() + 15)));
    }

    static void number(Object got, long wanted, String what) throws Exception {
        equal(String.valueOf(got), String.valueOf(wanted), what);
    }

    // ---------------------------------------------------------------------------------------------------- connections

    static Connection connect(String... options) throws SQLException {
        return connectAs(env("USER"), env("PASSWORD"), DATABASE, options);
    }

    static Connection connectAs(String user, String password, String database, String... options) throws SQLException {
        Map<String, String> wanted = new LinkedHashMap<>();
        wanted.put("allowPublicKeyRetrieval", "true");
        wanted.put("sslMode", MARIADB_DRIVER ? "disable" : "DISABLED");
        if (MARIADB_DRIVER) wanted.put("maxAllowedPacket", "125829120");
        for (String option : options) wanted.put(option.substring(0, option.indexOf('=')), option.substring(option.indexOf('=') + 1));
        StringBuilder url = new StringBuilder(MARIADB_DRIVER ? "jdbc:mariadb://" : "jdbc:mysql://");
        url.append(env("HOST")).append(':').append(env("PORT")).append('/').append(database);
        char separator = '?';
        for (Map.Entry<String, String> entry : wanted.entrySet()) {
            url.append(separator).append(entry.getKey()).append('=').append(MARIADB_DRIVER ? entry.getValue() : java.net.URLEncoder.encode(entry.getValue(), StandardCharsets.UTF_8));
            separator = '&';
        }
        Connection connection = DriverManager.getConnection(url.toString(), user, password);
        synchronized (opened) {
            opened.add(connection);
        }
        return connection;
    }

    static List<Object> read(ResultSet found) throws SQLException {
        List<Object> rows = new ArrayList<>();
        int columns = found.getMetaData().getColumnCount();
        while (found.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= columns; column++) row.add(found.getObject(column));
            rows.add(row);
        }
        return rows;
    }

    static List<Object> rows(Connection connection, String sql, Object... values) throws SQLException {
        if (values.length == 0) {
            try (Statement statement = connection.createStatement(); ResultSet found = statement.executeQuery(sql)) {
                return read(found);
            }
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int index = 0; index < values.length; index++) statement.setObject(index + 1, values[index]);
            try (ResultSet found = statement.executeQuery()) {
                return read(found);
            }
        }
    }

    static Object one(Connection connection, String sql, Object... values) throws SQLException {
        return ((List<?>) rows(connection, sql, values).get(0)).get(0);
    }

    static int run(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = values.length > 0 ? connection.prepareStatement(sql) : null) {
            if (statement == null) {
                try (Statement plain = connection.createStatement()) {
                    plain.execute(sql);
                    return plain.getUpdateCount();
                }
            }
            for (int index = 0; index < values.length; index++) statement.setObject(index + 1, values[index]);
            statement.execute();
            return statement.getUpdateCount();
        }
    }

    static List<Object> fault(Throwable error) {
        if (error instanceof Skip skip) throw skip;
        if (error instanceof SQLException sql) {
            String message = String.valueOf(sql.getMessage()).replaceAll("conn=\\d+", "conn=N").replaceAll("\\d+ milliseconds", "N milliseconds").split("\n")[0];
            return new ArrayList<>(Arrays.asList(sql.getClass().getSimpleName(), sql.getErrorCode(), sql.getSQLState(), message));
        }
        return new ArrayList<>(Arrays.asList(error.getClass().getSimpleName(), error.getMessage()));
    }

    static List<Object> refused(Callable<?> work) throws Exception {
        Object value;
        try {
            value = work.call();
        } catch (Exception error) {
            return fault(error);
        }
        throw new AssertionError("there was no error but " + text(value));
    }

    static List<Object> outcome(Callable<?> work) {
        try {
            return Arrays.asList("value", work.call());
        } catch (Exception error) {
            return fault(error);
        }
    }

    static void table(Connection connection, String name, String columns) throws SQLException {
        run(connection, "DROP TABLE IF EXISTS " + name);
        run(connection, "CREATE TABLE " + name + " (" + columns + ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4");
    }

    static void numbers(Connection connection, int count, String name) throws SQLException {
        table(connection, name, "id INT PRIMARY KEY, v VARCHAR(100)");
        run(connection, "INSERT INTO " + name + " VALUES (1, REPEAT('x', 80))");
        for (int have = 1; have < count; have *= 2) {
            run(connection, "INSERT INTO " + name + " SELECT id + " + have + ", v FROM " + name + " WHERE id + " + have + " <= " + count);
        }
    }

    static final String SERVER_PREPARED = "useServerPrepStmts=true";
    static final String ISOLATION = MARIADB_SERVER ? "@@tx_isolation" : "@@transaction_isolation";
    static final String TYPES = "id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE,"
        + " de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200), tx TEXT, vb VARBINARY(256),"
        + " bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL";
    static final String COLUMNS = "id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z";

    static Object types(String option) throws Exception {
        Connection connection = connect(option);
        table(connection, "t_types", TYPES);
        byte[] big = new byte[10240];
        for (int index = 0; index < big.length; index++) big[index] = (byte) index;
        Object[][] values = {
            {1, 127, 65535, 8388607, 4294967295L, Long.MAX_VALUE, new BigDecimal("18446744073709551615"), 1.5f, 1.7976931348623157e308, new BigDecimal("123456789012345678901234567890.0123456789"),
                "9999-12-31", "23:59:58.999999", "2038-01-19 03:14:07.999999", "2024-02-29 22:59:59.123", 2155, "char", "Zürich 🦀 'quoted' \\ back", "text ".repeat(50), ALL_BYTES, big,
                "{\"a\": [1, null, \"ü🦀\"]}", "two", "x,z", null, 42},
            {2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null},
            {3, -128, 0, -8388608, 0, Long.MIN_VALUE, 0, -1.25f, -0.1, new BigDecimal("-0.0000000001"), "1000-01-01", "00:00:01.000000", "1000-01-01 00:00:00.000000",
                "1971-01-01 00:00:00.000", 1901, "", "", "", new byte[0], new byte[0], "[]", "one", "", null, 0},
        };
        for (Object[] row : values) run(connection, "INSERT INTO t_types (" + COLUMNS + ") VALUES (" + "?, ".repeat(24) + "?)", row);
        run(connection, "UPDATE t_types SET bt = b'101010101010' WHERE id = 1");
        List<Object> found = rows(connection, "SELECT " + COLUMNS + " FROM t_types WHERE id >= ? ORDER BY id", 0);
        equal(found.size(), 3, "rows");
        for (int index = 0; index < 3; index++) {
            List<?> row = (List<?>) found.get(index);
            for (int column : new int[] {0, 1, 2, 3, 4, 5, 6, 9, 15, 16, 17}) {
                equal(row.get(column) == null ? null : row.get(column).toString(), values[index][column] == null ? null : values[index][column].toString(), "column " + column);
            }
            equal(row.get(18), values[index][18], "VARBINARY");
            equal(row.get(19), values[index][19], "LONGBLOB");
        }
        List<Object> strings = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("SELECT " + COLUMNS + " FROM t_types WHERE id = ?")) {
            statement.setInt(1, 1);
            ResultSet one = statement.executeQuery();
            one.next();
            for (int column = 1; column <= 18; column++) strings.add(one.getString(column));
        }
        return Arrays.asList(found, strings, rows(connection, "SELECT ? + 1, CONCAT(?, 'x'), ? IS NULL", 41, "y", null));
    }

    static Object large(int size) throws Exception {
        Connection connection = connect(SERVER_PREPARED);
        String value = "0123456789abcdef".repeat(size / 16);
        number(one(connection, "SELECT LENGTH(?)", value), size, "length");
        equal(one(connection, "SELECT REPEAT('0123456789abcdef', " + size / 16 + ")"), value, "value");
        Connection plain = connect();
        number(one(plain, "SELECT LENGTH(?)", value), size, "length");
        // By pieces: long data for the driver that has it.
        try (PreparedStatement statement = connection.prepareStatement("SELECT LENGTH(?), SHA2(?, 256)")) {
            byte[] bytes = value.getBytes(StandardCharsets.US_ASCII);
            statement.setBinaryStream(1, new ByteArrayInputStream(bytes), bytes.length);
            statement.setBinaryStream(2, new ByteArrayInputStream(bytes), bytes.length);
            List<?> row = (List<?>) read(statement.executeQuery()).get(0);
            number(row.get(0), size, "length by stream");
            return row;
        }
    }

    static List<Object> killed(Connection connection, Connection killer, Object id, String sql) throws Exception {
        ExecutorService executor = Executors.newSingleThreadExecutor();
        Future<List<Object>> result = executor.submit(() -> outcome(() -> sql.startsWith("SELECT") ? rows(connection, sql) : run(connection, sql)));
        Thread.sleep(700);
        run(killer, "KILL QUERY " + id);
        executor.shutdown();
        return result.get(15, TimeUnit.SECONDS);
    }

    static List<Object> results(Statement statement, boolean first) throws SQLException {
        List<Object> found = new ArrayList<>();
        boolean rows = first;
        while (true) {
            if (rows) found.add(read(statement.getResultSet()));
            else if (statement.getUpdateCount() >= 0) found.add(statement.getUpdateCount());
            else return found;
            rows = statement.getMoreResults();
        }
    }

    static final Map<String, Callable<Object>> cases = new LinkedHashMap<>();

    static {
        for (int index = 0; index < 256; index++) ALL_BYTES[index] = (byte) index;
        cases.put("connect", () -> {
            Connection connection = connect("sessionVariables=group_concat_max_len=4096,sql_mode='STRICT_TRANS_TABLES'");
            if (!connection.isValid(2)) throw new AssertionError("not valid");
            run(connection, "/* ping */ SELECT 1");
            List<Object> seen = rows(connection, "SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@group_concat_max_len, @@version, " + ISOLATION);
            return Arrays.asList(seen, connection.getMetaData().getDatabaseProductVersion(), refused(() -> connectAs(env("USER"), "wrong", DATABASE)).subList(0, 3),
                refused(() -> connectAs(env("USER"), env("PASSWORD"), "no_such_schema")).subList(0, 3));
        });
        cases.put("types_text", () -> types("useServerPrepStmts=false"));
        cases.put("types_prepared", () -> types(SERVER_PREPARED));
        cases.put("metadata", () -> {
            Connection connection = connect();
            table(connection, "t_types", TYPES);
            List<Object> seen = new ArrayList<>();
            for (String sql : new String[] {"SELECT " + COLUMNS + " FROM t_types", "SELECT t.id AS number, COUNT(*) c, MAX(v) FROM t_types AS t GROUP BY t.id", "SELECT 1 AS one, 'ü' AS `ä b`", "SHOW COLUMNS FROM t_types"}) {
                try (Statement statement = connection.createStatement()) {
                    ResultSetMetaData data = statement.executeQuery(sql).getMetaData();
                    for (int column = 1; column <= data.getColumnCount(); column++) {
                        seen.add(Arrays.asList(data.getColumnName(column), data.getColumnLabel(column), data.getColumnTypeName(column), data.getPrecision(column), data.getScale(column), data.isNullable(column), data.isSigned(column), data.getTableName(column), data.getColumnDisplaySize(column), data.getColumnClassName(column)));
                    }
                }
            }
            List<Object> tables = read(connection.getMetaData().getColumns(DATABASE, null, "t_types", "%"));
            return Arrays.asList(seen, tables);
        });
        cases.put("prepared_many", () -> {
            Connection connection = connect(SERVER_PREPARED, "cachePrepStmts=true", "prepStmtCacheSize=500");
            List<PreparedStatement> statements = new ArrayList<>();
            for (int number = 0; number < 300; number++) statements.add(connection.prepareStatement("SELECT ? AS a, " + number + " AS n"));
            for (int number = 299; number >= 0; number -= 7) {
                for (Object value : new Object[] {number, null, "text", 5.5}) {
                    statements.get(number).setObject(1, value);
                    List<?> row = (List<?>) read(statements.get(number).executeQuery()).get(0);
                    // MySQL keeps the type of the first execution.
                    if (MARIADB_SERVER || !(value instanceof String)) equal(row.get(0) == null ? null : row.get(0).toString(), value == null ? null : value.toString(), "echo");
                    number(row.get(1), number, "number");
                }
            }
            table(connection, "t_many", "id INT PRIMARY KEY, v VARCHAR(40)");
            run(connection, "INSERT INTO t_many VALUES (?, ?)", 7, "v7");
            List<Object> seen = new ArrayList<>();
            for (String change : new String[] {"SET @a = 1", "ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7", "ALTER TABLE t_many DROP COLUMN v"}) {
                run(connection, change);
                // Connector/J's cache keeps the columns of the first execution: it fails by itself here.
                seen.add(outcome(() -> rows(connection, "SELECT * FROM t_many WHERE id = ?", 7)));
            }
            for (PreparedStatement statement : statements) statement.close();
            return seen;
        });
        cases.put("sql_prepare", () -> {
            Connection connection = connect();
            run(connection, "PREPARE twice FROM 'SELECT ? * 2'");
            run(connection, "SET @n = 21");
            List<Object> seen = new ArrayList<>(rows(connection, "EXECUTE twice USING @n"));
            run(connection, "SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')");
            run(connection, "PREPARE other FROM @text");
            seen.addAll(rows(connection, "EXECUTE other"));
            run(connection, "DEALLOCATE PREPARE twice");
            seen.add(refused(() -> rows(connection, "EXECUTE twice USING @n")));
            return seen;
        });
        cases.put("cursor_fetch", () -> {
            if (MARIADB_DRIVER) throw new Skip("the driver streams instead of using cursors");
            Connection connection = connect(SERVER_PREPARED, "useCursorFetch=true"), second = connect();
            numbers(connection, 1000, "t_numbers");
            long total = 0;
            int count = 0;
            try (PreparedStatement statement = connection.prepareStatement("SELECT id, v FROM t_numbers WHERE id > ? ORDER BY id")) {
                statement.setFetchSize(7);
                statement.setInt(1, 0);
                try (ResultSet found = statement.executeQuery()) {
                    while (found.next()) {
                        total += found.getInt(1);
                        if (++count == 50) run(second, "UPDATE t_numbers SET v = 'changed'");
                    }
                }
                // Another statement while the cursor is open, and one that is left halfway.
                try (ResultSet found = statement.executeQuery()) {
                    found.next();
                    number(one(connection, "SELECT COUNT(*) FROM t_numbers"), 1000, "count");
                    found.next();
                }
            }
            number(total, 500500, "sum");
            return count;
        });
        cases.put("unbuffered", () -> {
            Connection connection = connect();
            numbers(connection, 20000, "t_numbers");
            long total = 0;
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                statement.setFetchSize(MARIADB_DRIVER ? 100 : Integer.MIN_VALUE);
                try (ResultSet found = statement.executeQuery("SELECT id, v FROM t_numbers ORDER BY id")) {
                    while (found.next()) {
                        total += found.getInt(1);
                        if (found.getInt(1) % 5000 == 0) Thread.sleep(50);
                    }
                }
                try (ResultSet found = statement.executeQuery("SELECT id, v FROM t_numbers ORDER BY id")) {
                    found.next();
                }
            }
            number(total, 20000L * 20001 / 2, "sum");
            return one(connection, "SELECT MAX(id) FROM t_numbers");
        });
        cases.put("batch", () -> {
            List<Object> seen = new ArrayList<>();
            String[][] ways = MARIADB_DRIVER ? new String[][] {{}, {"useServerPrepStmts=true"}, {"useBulkStmts=true"}, {"allowMultiQueries=true"}} : new String[][] {{}, {"rewriteBatchedStatements=true"}, {SERVER_PREPARED, "rewriteBatchedStatements=true"}, {SERVER_PREPARED}};
            for (String[] way : ways) {
                Connection connection = connect(way);
                table(connection, "t_batch", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB");
                connection.setAutoCommit(false);
                try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t_batch (u, v, b) VALUES (?, ?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                    for (int number = 0; number < 500; number++) {
                        statement.setInt(1, number);
                        statement.setString(2, number % 10 == 0 ? null : "v" + number);
                        statement.setBytes(3, number % 100 == 0 ? ALL_BYTES : new byte[0]);
                        statement.addBatch();
                    }
                    int[] counts = statement.executeBatch();
                    long keys = read(statement.getGeneratedKeys()).size();
                    seen.add(Arrays.asList(counts.length, counts[0], counts[499], keys));
                }
                try (PreparedStatement statement = connection.prepareStatement("UPDATE t_batch SET v = ? WHERE u = ?")) {
                    for (int number = 0; number < 50; number++) {
                        statement.setString(1, "w" + number);
                        statement.setInt(2, number);
                        statement.addBatch();
                    }
                    seen.add(statement.executeBatch().length);
                }
                connection.commit();
                seen.add(refused(() -> {
                    try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t_batch (u, v) VALUES (?, ?)")) {
                        for (int number : new int[] {2000, 5, 2001}) {
                            statement.setInt(1, number);
                            statement.setString(2, "x");
                            statement.addBatch();
                        }
                        return statement.executeBatch();
                    }
                }));
                connection.rollback();
                try (Statement statement = connection.createStatement()) {
                    statement.addBatch("INSERT INTO t_batch (u) VALUES (3000)");
                    statement.addBatch("UPDATE t_batch SET v = 'z' WHERE u < 10");
                    statement.addBatch("DELETE FROM t_batch WHERE u = 3000");
                    seen.add(statement.executeBatch());
                }
                connection.commit();
                seen.add(rows(connection, "SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), SUM(v LIKE 'w%'), MAX(u) FROM t_batch"));
                connection.close();
            }
            return seen;
        });
        cases.put("local_infile", () -> {
            Path file = Path.of(env("SCRATCH"), "load-java.csv");
            StringBuilder content = new StringBuilder();
            for (int number = 0; number < 20000; number++) content.append(number).append(",value ü ").append(number).append(' ').append("x".repeat(60)).append('\n');
            Files.writeString(file, content);
            Connection connection = connect("allowLoadLocalInfile=true", "allowLocalInfile=true");
            table(connection, "t_load", "id INT PRIMARY KEY, v VARCHAR(100)");
            String load = " INTO TABLE t_load CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','";
            int count = run(connection, "LOAD DATA LOCAL INFILE '" + file + "'" + load);
            List<Object> seen = rows(connection, "SELECT COUNT(*), SUM(id), MAX(v) FROM t_load");
            number(count, 20000, "rows");
            List<Object> missing = refused(() -> run(connection, "LOAD DATA LOCAL INFILE '/no/such/file'" + load)).subList(0, 3);
            return Arrays.asList(count, seen, missing, one(connection, "SELECT COUNT(*) FROM t_load"));
        });
        cases.put("kill_query", () -> {
            Connection connection = connect(), killer = connect();
            Object id = one(connection, "SELECT CONNECTION_ID()");
            List<Object> sleep = killed(connection, killer, id, "SELECT SLEEP(20)");
            numbers(connection, 3000, "t_kill");
            List<Object> work = killed(connection, killer, id, "SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id)");
            List<Object> write = killed(connection, killer, id, "UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1");
            number(work.get(1), 1317, "error");
            number(write.get(1), 1317, "error");
            number(one(connection, "SELECT 1"), 1, "after");
            return Arrays.asList(sleep, work, write, refused(() -> run(killer, "KILL QUERY 999999999")));
        });
        cases.put("kill_connection", () -> {
            Connection connection = connect(), killer = connect();
            Object id = one(connection, "SELECT CONNECTION_ID()");
            run(killer, "KILL " + id);
            Thread.sleep(300);
            List<Object> gone = refused(() -> rows(connection, "SELECT 1"));
            List<Object> unknown = refused(() -> run(killer, "KILL " + id));
            return Arrays.asList(gone.get(0), gone.get(2), unknown.get(1), unknown.get(3).toString().replace(id.toString(), "ID"), connection.isValid(1));
        });
        cases.put("timeout", () -> {
            Connection connection = connect();
            List<Object> seen = new ArrayList<>();
            numbers(connection, 3000, "t_slow");
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                seen.add(refused(() -> statement.executeQuery("SELECT COUNT(*) FROM t_slow a, t_slow b, t_slow c WHERE a.v <> CONCAT(b.v, c.id)")));
            }
            number(one(connection, "SELECT 1"), 1, "after");
            // Statement.cancel() opens a connection of its own and sends KILL QUERY.
            try (Statement statement = connection.createStatement()) {
                ExecutorService executor = Executors.newSingleThreadExecutor();
                Future<List<Object>> result = executor.submit(() -> outcome(() -> statement.execute("UPDATE t_slow SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1")));
                Thread.sleep(700);
                statement.cancel();
                // Which exception it is, the driver decides by which of two threads comes first.
                seen.add(String.valueOf(result.get(10, TimeUnit.SECONDS)).matches(".*(interrupted|cancelled|canceled).*"));
                executor.shutdown();
            }
            number(one(connection, "SELECT 2"), 2, "after");
            Connection slow = connect("socketTimeout=1000");
            seen.add(refused(() -> rows(slow, "SELECT SLEEP(15)")).get(0));
            return seen;
        });
        cases.put("tls", () -> {
            Connection connection = MARIADB_DRIVER ? connect("sslMode=verify-full", "serverSslCert=" + env("CA")) : connect("sslMode=VERIFY_CA", "trustCertificateKeyStoreUrl=file:" + trust(), "trustCertificateKeyStorePassword=changeit");
            equal(one(connection, "SELECT REPEAT('tls', 100000)"), "tls".repeat(100000), "value");
            return true;
        });
        cases.put("compression", () -> {
            Connection connection = connect("useCompression=true");
            String value = "compressible ".repeat(80000);
            equal(one(connection, "SELECT ?", value), value, "value");
            byte[] noise = new byte[1 << 19];
            new Random(1).nextBytes(noise);
            equal(one(connection, "SELECT SHA2(?, 256)", noise), HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(noise)), "noise");
            numbers(connection, 3000, "t_numbers");
            return rows(connection, "SELECT COUNT(*), MAX(id) FROM t_numbers");
        });
        cases.put("change_user", () -> {
            if (MARIADB_DRIVER) throw new Skip("the driver has no change of user");
            Connection connection = connect();
            run(connection, "SET @a = 5, SESSION group_concat_max_len = 77");
            connection.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).changeUser(env("OTHER_USER"), env("OTHER_PASSWORD"));
            List<Object> seen = rows(connection, "SELECT CURRENT_USER(), @a, @@group_concat_max_len");
            connection.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).resetServerState();
            return Arrays.asList(seen, rows(connection, "SELECT CURRENT_USER()"));
        });
        cases.put("reset", () -> {
            Connection connection = MARIADB_DRIVER ? null : connect();
            if (connection == null) throw new Skip("the driver resets in its own pool only; see pool");
            run(connection, "SET @a = 5, SESSION group_concat_max_len = 77");
            run(connection, "CREATE TEMPORARY TABLE t_gone (id INT)");
            connection.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).resetServerState();
            return Arrays.asList(rows(connection, "SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len"), refused(() -> rows(connection, "SELECT * FROM t_gone")));
        });
        cases.put("multi_statements", () -> {
            Connection connection = connect("allowMultiQueries=true");
            table(connection, "t_multi", "id INT PRIMARY KEY, v INT");
            List<Object> found;
            try (Statement statement = connection.createStatement()) {
                found = results(statement, statement.execute("INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x"));
            }
            List<Object> failed = refused(() -> {
                try (Statement statement = connection.createStatement()) {
                    return results(statement, statement.execute("SELECT 1; SELECT * FROM no_such_table; SELECT 3"));
                }
            });
            return Arrays.asList(found, failed, rows(connection, "SELECT @x, COUNT(*) FROM t_multi"));
        });
        cases.put("procedures", () -> {
            List<Object> seen = new ArrayList<>();
            for (String way : new String[] {"useServerPrepStmts=false", SERVER_PREPARED}) {
                Connection connection = connect(way);
                table(connection, "t_calls", "n INT");
                run(connection, "DROP PROCEDURE IF EXISTS p_results");
                run(connection, "CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END");
                for (int round = 0; round < 3; round++) {
                    try (CallableStatement statement = connection.prepareCall("{call p_results(?)}")) {
                        statement.setInt(1, round);
                        seen.add(results(statement, statement.execute()));
                    }
                }
                run(connection, "DROP PROCEDURE IF EXISTS p_fails");
                run(connection, "CREATE PROCEDURE p_fails() BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END");
                seen.add(refused(() -> run(connection, "CALL p_fails()")));
            }
            return seen;
        });
        cases.put("out_params", () -> {
            List<Object> seen = new ArrayList<>();
            for (String way : new String[] {"useServerPrepStmts=false", SERVER_PREPARED}) {
                Connection connection = connect(way);
                run(connection, "DROP PROCEDURE IF EXISTS p_out");
                run(connection, "CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); SELECT 'shown'; END");
                run(connection, "DROP FUNCTION IF EXISTS f_twice");
                run(connection, "CREATE FUNCTION f_twice(a INT) RETURNS INT DETERMINISTIC RETURN a * 2");
                try (CallableStatement statement = connection.prepareCall("{call p_out(?, ?, ?)}")) {
                    statement.setInt(1, 21);
                    statement.registerOutParameter(2, Types.INTEGER);
                    statement.setString(3, "hey");
                    statement.registerOutParameter(3, Types.VARCHAR);
                    statement.execute();
                    equal(Arrays.asList(statement.getInt(2), statement.getString(3)), Arrays.asList(42, "hey!"), "parameters");
                    seen.add(statement.getString(3));
                }
                try (CallableStatement statement = connection.prepareCall("{? = call f_twice(?)}")) {
                    statement.registerOutParameter(1, Types.INTEGER);
                    statement.setInt(2, 4);
                    statement.execute();
                    number(statement.getInt(1), 8, "function");
                }
            }
            return seen;
        });
        cases.put("large_17mb", () -> large(17 << 20));
        cases.put("large_40mb", () -> large(40 << 20));
        cases.put("charset", () -> {
            Connection connection = connect();
            table(connection, "t_chars", "id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)");
            run(connection, "INSERT INTO t_chars VALUES (1, ?, ?, ?)", "ü🦀漢字", "äöüÿ", new byte[] {-1, 0, -128});
            List<Object> seen = rows(connection, "SELECT u, l, b, HEX(u), HEX(l), HEX(b) FROM t_chars WHERE u = ?", "ü🦀漢字");
            equal(((List<?>) seen.get(0)).get(3), "C3BCF09FA680E6BCA2E5AD97", "bytes");
            Connection latin = MARIADB_DRIVER ? connect() : connect("characterEncoding=ISO-8859-1", SERVER_PREPARED);
            run(latin, "INSERT INTO t_chars VALUES (2, ?, ?, ?)", "äöü", "ÄÖÜ", new byte[] {(byte) 0xe4});
            Connection named = MARIADB_DRIVER ? connect() : connect("connectionCollation=utf8mb4_bin");
            return Arrays.asList(seen, rows(latin, "SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2"),
                rows(named, "SELECT @@collation_connection, 'a' = 'A'"));
        });
        cases.put("transactions", () -> {
            Connection connection = connect(), second = connect();
            table(connection, "t_trx", "id INT PRIMARY KEY, v INT");
            connection.setAutoCommit(false);
            List<Object> seen = new ArrayList<>();
            run(connection, "INSERT INTO t_trx VALUES (?, 1)", 1);
            number(one(connection, "SELECT COUNT(*) FROM t_trx"), 1, "inside");
            number(one(second, "SELECT COUNT(*) FROM t_trx"), 0, "outside");
            connection.rollback();
            run(connection, "INSERT INTO t_trx VALUES (2, 2)");
            Savepoint point = connection.setSavepoint("a");
            run(connection, "INSERT INTO t_trx VALUES (?, 3)", 3);
            connection.rollback(point);
            run(connection, "INSERT INTO t_trx VALUES (4, 4)");
            connection.releaseSavepoint(connection.setSavepoint());
            seen.add(refused(() -> run(connection, "INSERT INTO t_trx VALUES (?, 2)", 2)));
            connection.commit();
            seen.add(rows(connection, "SELECT id FROM t_trx ORDER BY id"));
            connection.setAutoCommit(true);
            equal(text(seen.get(1)), text(Arrays.asList(Arrays.asList(2), Arrays.asList(4))), "rows");
            return seen;
        });
        cases.put("isolation", () -> {
            Connection connection = connect();
            table(connection, "t_iso", "id INT PRIMARY KEY, v INT");
            run(connection, "INSERT INTO t_iso VALUES (1, 1)");
            List<Object> seen = new ArrayList<>();
            for (int level : new int[] {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE}) {
                connection.setTransactionIsolation(level);
                number(connection.getTransactionIsolation(), level, "level");
                seen.add(one(connection, "SELECT " + ISOLATION));
            }
            connection.setReadOnly(true);
            seen.add(connection.isReadOnly());
            seen.add(one(connection, "SELECT v FROM t_iso"));
            // MariaDB's driver tells the server of it only in some settings.
            seen.add(outcome(() -> run(connection, "UPDATE t_iso SET v = 3")));
            connection.setAutoCommit(false);
            seen.add(one(connection, "SELECT v FROM t_iso"));
            connection.commit();
            connection.setAutoCommit(true);
            connection.setReadOnly(false);
            seen.add(run(connection, "UPDATE t_iso SET v = 3"));
            seen.add(one(connection, "SELECT v FROM t_iso"));
            return seen;
        });
        cases.put("autocommit", () -> {
            Connection connection = connect(), second = connect();
            table(connection, "t_auto", "id INT PRIMARY KEY");
            connection.setAutoCommit(false);
            List<Object> seen = new ArrayList<>();
            seen.add(one(connection, "SELECT COUNT(*) FROM t_auto"));
            run(second, "INSERT INTO t_auto VALUES (1)");
            seen.add(one(connection, "SELECT COUNT(*) FROM t_auto"));
            connection.commit();
            seen.add(one(connection, "SELECT COUNT(*) FROM t_auto FOR UPDATE"));
            run(connection, "INSERT INTO t_auto VALUES (2)");
            connection.rollback();
            connection.setAutoCommit(true);
            seen.add(one(connection, "SELECT COUNT(*) FROM t_auto"));
            equal(seen.toString(), "[0, 0, 1, 1]", "counts");
            return seen;
        });
        cases.put("pool", () -> {
            Connection setup = connect();
            table(setup, "t_pool", "id INT AUTO_INCREMENT PRIMARY KEY, worker INT, n INT");
            java.util.concurrent.ArrayBlockingQueue<Connection> pool = new java.util.concurrent.ArrayBlockingQueue<>(4);
            for (int index = 0; index < 4; index++) pool.add(connect(SERVER_PREPARED, "cachePrepStmts=true"));
            ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
            ExecutorService executor = Executors.newFixedThreadPool(8);
            for (int index = 0; index < 8; index++) {
                int worker = index;
                executor.submit(() -> {
                    try {
                        for (int number = 0; number < 25; number++) {
                            Connection connection = pool.take();
                            try {
                                // Connection pools do this at each checkout.
                                if (!connection.isValid(2)) failures.add("not valid");
                                connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
                                connection.setReadOnly(false);
                                run(connection, "SET @mine = " + (worker * 1000 + number));
                                run(connection, "INSERT INTO t_pool (worker, n) VALUES (?, ?)", worker, number);
                                String mine = String.valueOf(one(connection, "SELECT @mine"));
                                if (!mine.equals(String.valueOf(worker * 1000 + number))) failures.add("worker " + worker + " read " + mine);
                                String have = String.valueOf(one(connection, "SELECT COUNT(*) FROM t_pool WHERE worker = ?", worker));
                                if (!have.equals(String.valueOf(number + 1))) failures.add("worker " + worker + " sees " + have + " of " + (number + 1));
                            } finally {
                                pool.add(connection);
                            }
                        }
                    } catch (Exception error) {
                        failures.add(error.toString());
                    }
                });
            }
            executor.shutdown();
            executor.awaitTermination(50, TimeUnit.SECONDS);
            equal(failures.stream().limit(4).toList(), List.of(), "failures");
            return one(setup, "SELECT COUNT(*) FROM t_pool FOR UPDATE");
        });
        cases.put("session_state", () -> {
            Connection connection = connect(SERVER_PREPARED);
            run(connection, "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')");
            run(connection, "SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')");
            run(connection, "SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5");
            List<Object> seen = new ArrayList<>(rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode"));
            for (int number = 0; number < 20; number++) one(connection, "SELECT ?", number);
            seen.addAll(rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, ?", 1));
            connection.setCatalog(OTHER);
            seen.add(one(connection, "SELECT DATABASE()"));
            seen.add(connection.getCatalog());
            connection.setCatalog(DATABASE);
            seen.add(one(connection, "SELECT DATABASE()"));
            try (Statement statement = connection.createStatement()) {
                statement.setMaxRows(2);
                seen.add(read(statement.executeQuery("SELECT 1 UNION SELECT 2 UNION SELECT 3")).size());
            }
            seen.add(rows(connection, "SELECT 1 UNION SELECT 2 UNION SELECT 3").size());
            return seen;
        });
        cases.put("temp_tables", () -> {
            Connection connection = connect(SERVER_PREPARED), second = connect();
            run(connection, "CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))");
            run(connection, "INSERT INTO t_temp VALUES (?, ?), (2, ?)", 1, "a", "b");
            List<Object> seen = new ArrayList<>(rows(connection, "SELECT v FROM t_temp WHERE id = ?", 2));
            seen.add(refused(() -> rows(second, "SELECT * FROM t_temp")));
            run(connection, "DROP TEMPORARY TABLE t_temp");
            seen.add(refused(() -> rows(connection, "SELECT * FROM t_temp")));
            return seen;
        });
        cases.put("own_writes", () -> {
            Connection connection = connect(SERVER_PREPARED, "cachePrepStmts=true");
            table(connection, "t_own", "id INT PRIMARY KEY, v INT");
            for (int number = 0; number < 200; number++) {
                run(connection, "INSERT INTO t_own VALUES (?, 0)", number);
                number(one(connection, "SELECT COUNT(*) FROM t_own"), number + 1, "rows after an insert");
                run(connection, "UPDATE t_own SET v = v + 1 WHERE id = ?", number);
                number(one(connection, "SELECT v FROM t_own WHERE id = ?", number), 1, "a value after its update");
            }
            return 200;
        });
        cases.put("insert_id", () -> {
            Connection connection = connect();
            table(connection, "t_ids", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT");
            List<Object> seen = new ArrayList<>();
            try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t_ids (u, v) VALUES (1, 1), (2, 2), (3, 3)", Statement.RETURN_GENERATED_KEYS)) {
                seen.add(statement.executeUpdate());
                seen.add(read(statement.getGeneratedKeys()));
            }
            seen.addAll(rows(connection, "SELECT LAST_INSERT_ID(), 1"));
            seen.add(run(connection, "INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9"));
            seen.add(one(connection, "SELECT ROW_COUNT()"));
            seen.add(run(connection, "UPDATE t_ids SET v = ? WHERE u = 2", 9));
            seen.add(run(connection, "REPLACE INTO t_ids (u, v) VALUES (3, 1)"));
            rows(connection, "SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1");
            seen.add(one(connection, "SELECT FOUND_ROWS()"));
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet found = statement.executeQuery("SELECT id, u, v FROM t_ids ORDER BY u");
                found.next();
                found.updateInt(3, 77);
                found.updateRow();
            }
            seen.add(one(connection, "SELECT v FROM t_ids WHERE u = 1"));
            return seen;
        });
        cases.put("locks", () -> {
            Connection connection = connect(), second = connect();
            String name = "lock_" + DATABASE;
            table(connection, "t_lock", "id INT PRIMARY KEY");
            List<Object> seen = new ArrayList<>(Arrays.asList(one(connection, "SELECT GET_LOCK(?, 5)", name), one(second, "SELECT GET_LOCK(?, 0)", name), one(connection, "SELECT RELEASE_LOCK(?)", name), one(second, "SELECT GET_LOCK(?, 5)", name)));
            second.close();
            seen.add(one(connection, "SELECT GET_LOCK(?, 5)", name));
            run(connection, "LOCK TABLES t_lock WRITE");
            seen.add(refused(() -> rows(connection, "SELECT * FROM t_types")));
            run(connection, "INSERT INTO t_lock VALUES (1)");
            seen.add(one(connection, "SELECT COUNT(*) FROM t_lock"));
            run(connection, "UNLOCK TABLES");
            return seen;
        });
        cases.put("errors", () -> {
            Connection connection = connect(), prepared = connect(SERVER_PREPARED);
            table(connection, "t_err", "id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT");
            run(connection, "INSERT INTO t_err VALUES (1, 'a', 1)");
            List<Object> seen = new ArrayList<>();
            for (String sql : new String[] {"INSERT INTO t_err VALUES (1, 'b', 1)", "SELEC 1", "SELECT * FROM no_such_table", "SELECT no_such_column FROM t_err", "INSERT INTO t_err VALUES (2, NULL, 1)",
                "INSERT INTO t_err VALUES (2, 'too long', 1)", "INSERT INTO t_err VALUES (2, 'a', 1000)", "SELECT no_such_function(1)", "CALL no_such_procedure()", "USE no_such_schema", "SET no_such_variable = 1",
                "CREATE TABLE t_err (id INT)", "DROP TABLE no_such_table", "SELECT 'ü' + no_such_column"}) {
                seen.add(refused(() -> run(connection, sql)));
            }
            seen.add(refused(() -> run(prepared, "INSERT INTO t_err VALUES (?, 'b', 1)", 1)));
            seen.add(refused(() -> rows(prepared, "SELECT * FROM no_such_table WHERE id = ?", 1)));
            seen.add(refused(() -> rows(prepared, "SELEC ?", 1)));
            return seen;
        });
        cases.put("warnings", () -> {
            Connection connection = connect("jdbcCompliantTruncation=false");
            run(connection, "SET sql_mode = ''");
            table(connection, "t_warn", "id INT PRIMARY KEY, v VARCHAR(3), n TINYINT");
            List<Object> seen = new ArrayList<>();
            try (Statement statement = connection.createStatement()) {
                for (String sql : new String[] {"INSERT INTO t_warn VALUES (1, 'too long', 1000)", "DROP TABLE IF EXISTS no_such_table", "INSERT IGNORE INTO t_warn VALUES (1, 'a', 1)"}) {
                    statement.execute(sql);
                    for (SQLWarning warning = statement.getWarnings(); warning != null; warning = warning.getNextWarning()) seen.add(Arrays.asList(warning.getErrorCode(), warning.getSQLState(), warning.getMessage()));
                    statement.clearWarnings();
                }
            }
            return seen;
        });
        cases.put("habits", () -> {
            // At login Connector/J sends one SELECT of about twenty variables behind a comment; pools add pings by a comment;
            // MariaDB's driver sets variables by expressions and prepares and executes in one write.
            List<Object> seen = new ArrayList<>();
            Connection connection = MARIADB_DRIVER ? connect("useServerPrepStmts=true", "cachePrepStmts=false", "tinyInt1isBit=false", "initSql=SET @set = 1") : connect("useLocalSessionState=true", "useServerPrepStmts=true", "cacheServerConfiguration=true", "maintainTimeStats=false", "elideSetAutoCommits=true");
            for (int number = 0; number < 100; number++) {
                int wanted = number;
                number(one(connection, "SELECT ? + 0", number), wanted, "echo");
                if (number % 10 == 0) {
                    run(connection, "/* ping */ SELECT 1");
                    seen.add(refused(() -> rows(connection, "SELECT * FROM no_such_table WHERE id = ?", wanted)).subList(1, 3));
                    if (!connection.isValid(1)) throw new AssertionError("not valid");
                }
            }
            connection.setReadOnly(true);
            for (int number = 0; number < 5; number++) number(one(connection, "SELECT ? + 0", number), number, "echo");
            connection.setReadOnly(false);
            return seen;
        });
    }

    /// Connector/J reads authorities from a key store.
    static String trust() throws Exception {
        Path file = Path.of(env("SCRATCH"), "trust.p12");
        java.security.KeyStore store = java.security.KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (var in = Files.newInputStream(Path.of(env("CA")))) {
            store.setCertificateEntry("ca", java.security.cert.CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        try (var out = Files.newOutputStream(file)) {
            store.store(out, "changeit".toCharArray());
        }
        return file.toString();
    }

    public static void main(String[] arguments) throws IOException {
        List<String> only = env("ONLY").isEmpty() ? List.of() : List.of(env("ONLY").split(","));
        ExecutorService executor = Executors.newCachedThreadPool(work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        var names = java.util.regex.Pattern.compile("(?m)^name = \"(.*)\"$").matcher(Files.readString(Path.of(env("CASES"))));
        while (names.find()) {
            String name = names.group(1);
            if (!only.isEmpty() && !only.contains(name)) continue;
            long started = System.currentTimeMillis();
            String rest;
            try {
                if (!cases.containsKey(name)) throw new IllegalStateException("the driver's program has no such case");
                String seen = executor.submit(() -> text(cases.get(name).call())).get(60, TimeUnit.SECONDS);
                rest = "\"status\": \"ok\", \"digest\": \"" + digest(seen.getBytes(StandardCharsets.UTF_8)) + "\", \"seen\": " + quoted(seen.substring(0, Math.min(4000, seen.length())));
            } catch (Throwable trouble) {
                Throwable cause = trouble.getCause() != null && trouble instanceof java.util.concurrent.ExecutionException ? trouble.getCause() : trouble;
                if (cause instanceof Skip) {
                    rest = "\"status\": \"skip\", \"reason\": " + quoted(cause.getMessage());
                } else {
                    StringWriter stack = new StringWriter();
                    cause.printStackTrace(new PrintWriter(stack));
                    String where = String.join(" ", java.util.regex.Pattern.compile("Program\\.java:\\d+").matcher(stack.toString()).results().limit(5).map(java.util.regex.MatchResult::group).toList());
                    String message = cause + " [" + where + "]";
                    rest = "\"status\": \"fail\", \"error\": " + quoted(message.substring(0, Math.min(1500, message.length())));
                }
            }
            for (Connection connection : opened) {
                try {
                    connection.abort(Runnable::run);
                } catch (Exception ignored) {
                    // It is gone already.
                }
            }
            opened.clear();
            System.out.println("{\"case\": \"" + name + "\", " + rest + ", \"ms\": " + (System.currentTimeMillis() - started) + "}");
        }
        System.exit(0);
    }
}
