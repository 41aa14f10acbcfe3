"""The driver matrix by Python's DB-API drivers: `program.py NAME`."""

import datetime
import decimal
import os
import sys
import threading
import time

from adapters import ADAPTERS
from common import (
    ALL_BYTES,
    DATABASE,
    FAMILY,
    OTHER_DATABASE,
    OTHER_PASSWORD,
    OTHER_USER,
    PASSWORD,
    SCRATCH,
    USER,
    Skip,
    equal,
    main,
)

NAME = sys.argv[1]
A = ADAPTERS[NAME]()


def results(cursor):
    """All results of what a cursor executed: rows, or how many rows were affected."""
    found = []
    while True:
        found.append(list(cursor.fetchall()) if cursor.description else cursor.rowcount)
        if not cursor.nextset():
            return found


def rows(connection, sql, parameters=None):
    cursor = A.cursor(connection)
    cursor.execute(sql, parameters) if parameters is not None else cursor.execute(sql)
    found = list(cursor.fetchall()) if cursor.description else []
    cursor.close()
    return found


def one(connection, sql, parameters=None):
    return rows(connection, sql, parameters)[0][0]


def do(connection, sql, parameters=None):
    cursor = A.cursor(connection)
    cursor.execute(sql, parameters) if parameters is not None else cursor.execute(sql)
    count = cursor.rowcount
    cursor.close()
    return count


def error_of(function):
    try:
        function()
    except Skip:
        raise
    except Exception as error:
        code = getattr(error, "errno", None) or (error.args[0] if error.args else None)
        state = getattr(error, "sqlstate", None)
        text = getattr(error, "msg", None) or getattr(error, "errmsg", None) or (error.args[1] if len(error.args) > 1 else str(error))
        return [type(error).__name__, code, state, str(text)]
    raise AssertionError("there was no error")


def table(connection, name, columns, engine="InnoDB"):
    do(connection, f"DROP TABLE IF EXISTS {name}")
    do(connection, f"CREATE TABLE {name} ({columns}) ENGINE={engine} DEFAULT CHARSET=utf8mb4")


TYPES = """id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED,
    f FLOAT, d DOUBLE, de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200),
    tx TEXT, vb VARBINARY(256), bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL"""

TYPE_ROWS = [
    (1, 127, 65535, 8388607, 4294967295, 9223372036854775807, 18446744073709551615, 1.5, 1.7976931348623157e308,
     decimal.Decimal("123456789012345678901234567890.0123456789"), datetime.date(9999, 12, 31),
     datetime.timedelta(hours=838, minutes=59, seconds=58, microseconds=999999), datetime.datetime(2038, 1, 19, 3, 14, 7, 999999),
     datetime.datetime(2024, 2, 29, 23, 59, 59, 123000), 2155, "char", "Zürich 🦀 'quoted' \\ back", "text " * 50, ALL_BYTES, ALL_BYTES * 40,
     '{"a": [1, null, "ü🦀"]}', "two", "x,z", None, 42),
    (2,) + (None,) * 24,
    (3, -128, 0, -8388608, 0, -9223372036854775808, 0, -1.25, -0.1, decimal.Decimal("-0.0000000001"), datetime.date(1000, 1, 1),
     -datetime.timedelta(hours=1, seconds=1), datetime.datetime(1000, 1, 1), datetime.datetime(1971, 1, 1), 1901, "", "", "", b"", b"", "[]",
     "one", "", None, 0),
]
TYPE_COLUMNS = "id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z"


def connect():
    connection = A.connect()
    equal(one(connection, "SELECT CONNECTION_ID()"), A.thread_id(connection), "CONNECTION_ID()")
    equal(one(connection, "SELECT DATABASE()"), DATABASE)
    seen = rows(connection, """SELECT CURRENT_USER(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit,
        @@sql_mode, @@time_zone, @@version, @@tx_isolation""" if FAMILY == "mariadb" else """SELECT CURRENT_USER(), @@character_set_client,
        @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@time_zone, @@version, @@transaction_isolation""")
    A.ping(connection)
    info = str(A.server_info(connection))
    connection.close()
    wrong = error_of(lambda: A.connect(password="wrong"))
    nowhere = error_of(lambda: A.connect(database="no_such_schema"))
    return [seen, info, wrong[:3], nowhere[:3]]


def write_types(connection, cursor, prepared=False):
    for row in TYPE_ROWS:
        if prepared and NAME == "mysql-connector-python" and row[11]:
            # It counts days and hours twice.
            row = [*row[:11], time_text(row[11]), *row[12:]]
        if prepared and NAME == "mysql-connector-python-c":
            # Its prepared statements lose times, refuse integers of more than 63 bits and round great floats up.
            row = [str(v) if isinstance(v, int) and v >= 1 << 63 else time_text(v) if isinstance(v, datetime.timedelta) else v for v in row]
            row[8] = 1.5
        cursor.execute(f"INSERT INTO t_types ({TYPE_COLUMNS}) VALUES ({', '.join(['%s'] * 25)})", row)
    do(connection, "UPDATE t_types SET bt = b'101010101010' WHERE id = 1")


def time_text(value):
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    seconds = value.days * 86400 + value.seconds
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}.{value.microseconds:06}"


def check_types(found):
    equal(len(found), 3)
    for got, wanted in zip(found, TYPE_ROWS):
        for index in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12):
            equal(got[index], wanted[index], f"column {index} of row {wanted[0]}")
        for index in (18, 19):
            equal(None if got[index] is None else bytes(got[index]), wanted[index], f"column {index}")


def types_text():
    connection = A.connect()
    table(connection, "t_types", TYPES)
    cursor = A.cursor(connection)
    write_types(connection, cursor)
    # MariaDB Connector/Python cannot read ZEROFILL by text.
    columns = TYPE_COLUMNS.replace(" z", " z + 0") if NAME == "mariadb-connector-python" else TYPE_COLUMNS
    found = rows(connection, f"SELECT {columns} FROM t_types ORDER BY id")
    check_types(found)
    computed = rows(connection, "SELECT 1/3, 10 DIV 3, 1e0, NOW() > '2000-01-01', NULL, 0x414243, 'a' = 'A', CAST(-1 AS SIGNED), CAST(1 AS UNSIGNED)")
    connection.close()
    return [found, computed]


def types_prepared():
    connection = A.connect()
    cursor = A.prepared_cursor(connection)
    table(connection, "t_types", TYPES)
    write_types(connection, cursor, prepared=True)
    # The pure driver does not know how a YEAR is sent.
    columns = TYPE_COLUMNS.replace(" y,", " y + 0,") if NAME == "mysql-connector-python" else TYPE_COLUMNS
    cursor.execute(f"SELECT {columns} FROM t_types WHERE id >= %s ORDER BY id", (0,))
    found = list(cursor.fetchall())
    # The drivers in C have faults of their own with times and TINYINT; what they read is compared all the same.
    if NAME == "mysql-connector-python":
        check_types(found)
    cursor.close()
    cursor = A.prepared_cursor(connection)
    cursor.execute("SELECT %s + 1, CONCAT(%s, 'x'), %s IS NULL", (41, "y", None))
    echoed = list(cursor.fetchall())
    cursor.close()
    connection.close()
    return [found, echoed]


def metadata():
    connection = A.connect()
    table(connection, "t_types", TYPES)
    seen = []
    for sql in (
        f"SELECT {TYPE_COLUMNS} FROM t_types", "SELECT t.id AS number, COUNT(*) c, MAX(v) FROM t_types AS t GROUP BY t.id",
        "SHOW COLUMNS FROM t_types", "SELECT 1 AS one, 'ü' AS `ä b`", "SHOW VARIABLES LIKE 'autocommit'",
    ):
        cursor = A.cursor(connection)
        cursor.execute(sql)
        seen.append([list(column) for column in cursor.description])
        cursor.fetchall()
        cursor.close()
    connection.close()
    return seen


def prepared_many():
    connection = A.connect()
    table(connection, "t_many", "id INT PRIMARY KEY, v VARCHAR(40)")
    cursors = []
    for number in range(300):
        cursor = A.prepared_cursor(connection)
        cursor.execute(f"SELECT %s AS a{number}, {number} AS n", (number,))
        equal(cursor.fetchall(), [(number, number)])
        cursors.append(cursor)
    for number in list(range(0, 300, 7)) + list(range(299, 0, -11)):
        for value in (None, "text", 5):
            cursors[number].execute(f"SELECT %s AS a{number}, {number} AS n", (value,))
            got = cursors[number].fetchall()[0]
            equal(got[1], number)
            wanted = None if value is None else str(value)
            if FAMILY == "mariadb" or value != "text":  # MySQL keeps the type of the first execution
                equal(None if got[0] is None else str(got[0]), wanted, "echo")
    writer = A.prepared_cursor(connection)
    for number in range(50):
        writer.execute("INSERT INTO t_many VALUES (%s, %s)", (number, f"v{number}"))
    do(connection, "ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7")
    reader = A.prepared_cursor(connection)
    reader.execute("SELECT * FROM t_many WHERE id = %s", (7,))
    before = list(reader.fetchall())
    do(connection, "ALTER TABLE t_many DROP COLUMN v")
    if NAME == "mysql-connector-python-c":
        # It keeps the columns of the first execution.
        reader = A.prepared_cursor(connection)
    reader.execute("SELECT * FROM t_many WHERE id = %s", (7,))
    after = list(reader.fetchall())
    equal([before, after], [[(7, "v7", 7)], [(7, 7)]])
    for cursor in cursors:
        cursor.close()
    connection.close()
    return [before, after]


def sql_prepare():
    connection = A.connect()
    do(connection, "PREPARE twice FROM 'SELECT ? * 2'")
    do(connection, "SET @n = 21")
    found = [rows(connection, "EXECUTE twice USING @n")]
    do(connection, "SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')")
    do(connection, "PREPARE other FROM @text")
    found.append(rows(connection, "EXECUTE other"))
    do(connection, "SET @n = NULL")
    found.append(rows(connection, "EXECUTE twice USING @n"))
    do(connection, "DEALLOCATE PREPARE twice")
    found.append(error_of(lambda: rows(connection, "EXECUTE twice USING @n")))
    connection.close()
    equal(int(found[0][0][0]), 42)
    return found


def numbers(connection, count, name="t_numbers"):
    table(connection, name, "id INT PRIMARY KEY, v VARCHAR(100)")
    do(connection, f"INSERT INTO {name} VALUES (1, REPEAT('x', 80))")
    have = 1
    while have < count:
        do(connection, f"INSERT INTO {name} SELECT id + {have}, v FROM {name} WHERE id + {have} <= {count}")
        have *= 2


def cursor_fetch():
    connection, other = A.connect(), A.connect()
    cursor = A.stepping_cursor(connection)
    numbers(connection, 1000)
    cursor.execute("SELECT id, v FROM t_numbers WHERE id > %s ORDER BY id", (0,))
    total, count = 0, 0
    for number in range(100):
        row = cursor.fetchone()
        total, count = total + row[0], count + 1
        if number == 50:
            do(other, "UPDATE t_numbers SET v = 'changed'")
    for row in cursor.fetchall():
        total, count = total + row[0], count + 1
    cursor.close()
    equal([count, total], [1000, 500500])
    equal(one(connection, "SELECT COUNT(*) FROM t_numbers"), 1000)
    connection.close()
    other.close()
    return [count, total]


def unbuffered():
    connection = A.connect()
    numbers(connection, 20000)
    cursor = A.streaming_cursor(connection)
    cursor.execute("SELECT id, v FROM t_numbers ORDER BY id")
    total = sum(row[0] for row in cursor)
    equal(total, 20000 * 20001 // 2)
    cursor.close()
    cursor = A.streaming_cursor(connection)
    cursor.execute("SELECT id, v FROM t_numbers ORDER BY id")
    first = [cursor.fetchone() for _ in range(10)]
    cursor.fetchall()
    cursor.close()
    last = one(connection, "SELECT MAX(id) FROM t_numbers")
    # Left halfway: the connection goes with it.
    cursor = A.streaming_cursor(connection)
    cursor.execute("SELECT id, v FROM t_numbers ORDER BY id")
    cursor.fetchone()
    try:
        connection.close()
    except Exception:
        pass
    return [total, first[9][0], last]


def batch():
    connection = A.connect(autocommit=False)
    table(connection, "t_batch", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB")
    cursor = A.cursor(connection)
    cursor.executemany(
        "INSERT INTO t_batch (u, v, b) VALUES (%s, %s, %s)",
        [(n, None if n % 10 == 0 else f"v{n}", ALL_BYTES if n % 100 == 0 else b"") for n in range(1000)],
    )
    count = cursor.rowcount
    connection.commit()
    cursor.executemany("UPDATE t_batch SET v = %s WHERE u = %s", [(f"w{n}", n) for n in range(50)])
    updated = cursor.rowcount
    connection.commit()
    clash = error_of(lambda: cursor.executemany("INSERT INTO t_batch (u, v) VALUES (%s, %s)", [(2000, "a"), (5, "b"), (2001, "c")]))
    connection.rollback()
    found = rows(connection, "SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), SUM(v LIKE 'w%%'), MIN(id), MAX(u) FROM t_batch", ())
    equal([int(value) for value in found[0]], [1000, 95, 2560, 50, 1, 999])
    cursor.close()
    connection.close()
    return [count, updated, clash, found]


def local_infile():
    connection = A.connect(local_infile=True)
    table(connection, "t_load", "id INT PRIMARY KEY, v VARCHAR(100)")
    path = os.path.join(SCRATCH, f"load-{NAME}.csv")
    with open(path, "w", encoding="utf-8") as file:
        for number in range(20000):
            file.write(f"{number},value ü {number} {'x' * 60}\n")
    count = do(connection, f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t_load CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','")
    found = rows(connection, "SELECT COUNT(*), SUM(id), MAX(v) FROM t_load")
    equal(found[0][0], 20000)
    missing = error_of(lambda: do(connection, "LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE t_load"))
    if NAME == "mysql-connector-python":
        # It does not end the transfer: the next command would be part of the file.
        connection._socket.sock.close()
        return [count, found, missing[0], missing[1]]
    usable = error_of_or(lambda: one(connection, "SELECT COUNT(*) FROM t_load"))
    connection.close()
    return [count, found, missing[0], missing[1], usable]


def error_of_or(function):
    """The value, or the error's name: what a driver does here is its own affair, but must be the same."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def while_running(connection, function, kill):
    """Runs `function` in a thread, and `kill` as soon as its statement is at work."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(error_of_or_value(function)))
    thread.start()
    time.sleep(0.7)
    kill()
    thread.join(30)
    assert not thread.is_alive(), "the statement was not ended"
    return outcome[0]


def error_of_or_value(function):
    try:
        return ["value", function()]
    except Exception:
        return error_of(lambda: (_ for _ in ()).throw(sys.exc_info()[1]))


def kill_query():
    connection, killer = A.connect(), A.connect()
    thread_id = A.thread_id(connection)
    started = time.monotonic()
    # A sleep that is killed gives 1; a join of nothing but work gives the error.
    sleep = while_running(connection, lambda: rows(connection, "SELECT SLEEP(20)"), lambda: do(killer, f"KILL QUERY {thread_id}"))
    numbers(connection, 3000, "t_kill")
    # A write goes to the primary, a read may be on a replica: both must be found.
    work = while_running(
        connection,
        lambda: rows(connection, "SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id)"),
        lambda: do(killer, f"KILL QUERY {thread_id}"),
    )
    write = while_running(
        connection,
        lambda: do(connection, "UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1"),
        lambda: do(killer, f"KILL QUERY {thread_id}"),
    )
    assert time.monotonic() - started < 15, "the statements were not ended in time"
    equal(one(connection, "SELECT 1"), 1)
    unknown = error_of(lambda: do(killer, "KILL QUERY 999999999"))
    equal([work[1], write[1]], [1317, 1317])
    connection.close()
    killer.close()
    return [sleep, work, write, unknown]


def kill_connection():
    connection, killer = A.connect(), A.connect()
    thread_id = A.thread_id(connection)
    do(killer, f"KILL {thread_id}")
    time.sleep(0.3)
    gone = error_of(lambda: rows(connection, "SELECT 1"))
    unknown = error_of(lambda: do(killer, f"KILL {thread_id}"))
    unknown[3] = unknown[3].replace(str(thread_id), "ID")
    killer.close()
    # Which of its codes for a lost connection a driver shows depends on what it notices first.
    return [gone[0], gone[1] in (1927, 2006, 2013, 2055, 4031, 0), unknown]


def timeout():
    connection = A.statement_timeout()
    started = time.monotonic()
    ended = error_of(lambda: rows(connection, "SELECT SLEEP(15)"))
    assert time.monotonic() - started < 8
    again = error_of_or(lambda: one(connection, "SELECT 1"))
    try:
        connection.close()
    except Exception:
        pass
    limited = A.connect()
    # The server's own limits follow the session.
    if FAMILY == "mariadb":
        do(limited, "SET max_statement_time = 0.5")
        own = error_of(lambda: rows(limited, "SELECT COUNT(*) FROM information_schema.COLUMNS a, information_schema.COLUMNS b WHERE SLEEP(0.01)"))
        do(limited, "SET max_statement_time = DEFAULT")
    else:
        own = error_of(lambda: rows(limited, "SELECT /*+ MAX_EXECUTION_TIME(500) */ COUNT(*) FROM information_schema.COLUMNS a, information_schema.COLUMNS b WHERE SLEEP(0.01)"))
    equal(one(limited, "SELECT 2"), 2)
    limited.close()
    return [ended[0], ended[1], again, own]


def tls():
    connection = A.connect(tls=True)
    found = one(connection, "SELECT REPEAT('tls', 100000)")
    equal(found, "tls" * 100000)
    equal(one(connection, "SELECT CONNECTION_ID()"), A.thread_id(connection))
    cipher = rows(connection, "SHOW STATUS LIKE 'Ssl_version'")
    connection.close()
    return [len(found), cipher[0][1] != ""]


def compression():
    connection = A.connect(compress=True)
    text = "compressible " * 80000
    equal(one(connection, "SELECT %s", (text,)), text)
    noise = os.urandom(1 << 19).hex()
    equal(one(connection, "SELECT %s", (noise,)), noise)
    equal(one(connection, "SELECT 1"), 1)
    numbers(connection, 3000)
    found = rows(connection, "SELECT COUNT(*), MAX(id) FROM t_numbers")
    connection.close()
    return found


def change_user():
    connection = A.connect()
    do(connection, "SET @a = 5, SESSION group_concat_max_len = 77")
    do(connection, "CREATE TEMPORARY TABLE t_gone (id INT)")
    A.change_user(connection, OTHER_USER, OTHER_PASSWORD, OTHER_DATABASE)
    seen = rows(connection, "SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len, @@character_set_client, @@collation_connection")
    equal(seen[0][2], None)
    gone = error_of(lambda: rows(connection, f"SELECT * FROM {DATABASE}.t_gone"))
    same_id = one(connection, "SELECT CONNECTION_ID()") == A.thread_id(connection)
    A.change_user(connection, USER, PASSWORD, DATABASE)
    back = rows(connection, "SELECT CURRENT_USER(), DATABASE()")
    refused = error_of(lambda: A.change_user(connection, OTHER_USER, "wrong", OTHER_DATABASE))
    after = error_of_or(lambda: rows(connection, "SELECT CURRENT_USER()"))
    try:
        connection.close()
    except Exception:
        pass
    return [seen, gone, same_id, back, refused[:3], after]


def reset():
    connection = A.connect(autocommit=True)
    table(connection, "t_reset", "id INT PRIMARY KEY")
    A.reset(connection)
    do(connection, "SET @a = 5, SESSION group_concat_max_len = 77, SESSION sql_mode = ''")
    do(connection, "CREATE TEMPORARY TABLE t_gone (id INT)")
    do(connection, "START TRANSACTION")
    do(connection, "INSERT INTO t_reset VALUES (1)")
    A.reset(connection)
    seen = rows(connection, "SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len, @@sql_mode, @@autocommit, @@character_set_client")
    equal(seen[0][2], None)
    equal(one(connection, "SELECT COUNT(*) FROM t_reset"), 0)
    gone = error_of(lambda: rows(connection, "SELECT * FROM t_gone"))
    connection.close()
    return [seen, gone]


def multi_statements():
    connection = A.connect(multi=True)
    table(connection, "t_multi", "id INT PRIMARY KEY, v INT")
    cursor = A.cursor(connection)
    cursor.execute("INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x")
    found = results(cursor)
    cursor.close()
    cursor = A.cursor(connection)

    def fails():
        cursor.execute("SELECT 1; SELECT * FROM no_such_table; SELECT 3")
        return results(cursor)

    failed = error_of_or_value(fails)
    try:
        cursor.close()
    except Exception:
        pass
    after = rows(connection, "SELECT @x, COUNT(*) FROM t_multi")
    connection.close()
    return [found, failed, after]


def procedures():
    connection = A.connect(multi=True)
    do(connection, "DROP PROCEDURE IF EXISTS p_results")
    do(connection, "CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END")
    table(connection, "t_calls", "n INT")
    cursor = A.cursor(connection)
    cursor.execute("CALL p_results(5)")
    found = results(cursor)
    cursor.close()
    equal([list(found[0]), list(found[2])], [[(5,)], [(1,)]])
    prepared = None
    if A.prepared:
        cursor = A.prepared_cursor(connection)
        cursor.execute("CALL p_results(%s)", (6,))
        prepared = error_of_or(lambda: results(cursor))
        if NAME.startswith("mysql-connector"):
            # It does not read the last of a prepared call's results.
            connection = A.connect()
        else:
            cursor.close()
    do(connection, "DROP PROCEDURE IF EXISTS p_fails")
    do(connection, "CREATE PROCEDURE p_fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END")

    def fails():
        cursor = A.cursor(connection)
        cursor.execute("CALL p_fails()")
        return results(cursor)

    failed = error_of_or_value(fails)
    after = rows(connection, "SELECT COUNT(*) FROM t_calls")
    connection.close()
    return [found, prepared, failed, after]


def out_params():
    connection = A.connect(multi=True)
    do(connection, "DROP PROCEDURE IF EXISTS p_out")
    do(connection, "CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END")
    cursor = A.cursor(connection)
    answer = cursor.callproc("p_out", (21, 0, "hey"))
    while cursor.nextset():
        pass
    if NAME in ("pymysql", "mysqlclient"):
        answer = rows(connection, "SELECT @_p_out_0, @_p_out_1, @_p_out_2")
    elif NAME == "mariadb-connector-python":
        answer = cursor.fetchone() if cursor.description else [answer]
    do(connection, "SET @c = 'x'")
    do(connection, "CALL p_out(4, @b, @c)")
    own = rows(connection, "SELECT @b, @c")
    equal(own, [(8, "x!")])
    cursor.close()
    connection.close()
    return [answer, own]


def large(size):
    connection = A.connect()
    text = "0123456789abcdef" * (size // 16)
    found = rows(connection, "SELECT LENGTH(%s), %s", (text, text[: size // 2]))
    equal(int(found[0][0]), len(text))
    equal(found[0][1], text[: size // 2])
    back = one(connection, f"SELECT REPEAT('0123456789abcdef', {size // 16})")
    equal(back, text)
    prepared = None
    if A.prepared:
        cursor = A.prepared_cursor(connection)
        cursor.execute("SELECT LENGTH(%s), 1", (text,))
        prepared = list(cursor.fetchall())
        equal(int(prepared[0][0]), len(text))
        cursor.close()
    equal(one(connection, "SELECT 1"), 1)
    connection.close()
    return [len(text), prepared]


def charset():
    connection = A.connect()
    table(connection, "t_chars", "id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)")
    do(connection, "INSERT INTO t_chars VALUES (1, %s, %s, %s)", ("ü🦀漢字", "äöüÿ", b"\xff\x00\x80"))
    found = rows(connection, "SELECT u, l, b, HEX(u), HEX(l), HEX(b) FROM t_chars WHERE u = %s", ("ü🦀漢字",))
    equal(found[0][3], "C3BCF09FA680E6BCA2E5AD97")
    equal(found[0][4], "E4F6FCFF")
    connection.close()
    if NAME == "mariadb-connector-python":
        return [found]
    connection = A.connect(charset="latin1")
    do(connection, "INSERT INTO t_chars VALUES (2, %s, %s, %s)", ("äöü", "ÄÖÜ", b"\xe4"))
    latin = rows(connection, "SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2")
    equal([latin[0][2], latin[0][3]], ["C3A4C3B6C3BC", "C4D6DC"])
    lost = rows(connection, "SELECT u FROM t_chars WHERE id = 1")
    do(connection, "SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    named = rows(connection, "SELECT @@character_set_client, @@collation_connection, HEX('a' = 'A')")
    connection.close()
    return [found, latin, lost, named]


def transactions():
    connection, other = A.connect(autocommit=False), A.connect()
    table(connection, "t_trx", "id INT PRIMARY KEY, v INT")
    connection.commit()
    count = lambda c: one(c, "SELECT COUNT(*) FROM t_trx")
    do(connection, "INSERT INTO t_trx VALUES (1, 1)")
    seen = [count(connection), count(other)]
    connection.rollback()
    seen.append(count(connection))
    do(connection, "INSERT INTO t_trx VALUES (2, 2)")
    do(connection, "SAVEPOINT a")
    do(connection, "INSERT INTO t_trx VALUES (3, 3)")
    do(connection, "ROLLBACK TO SAVEPOINT a")
    do(connection, "INSERT INTO t_trx VALUES (4, 4)")
    do(connection, "RELEASE SAVEPOINT a")
    connection.commit()
    # Another session's read may come from a replica: what it must see is settled by the primary.
    seen.append([row[0] for row in rows(connection, "SELECT id FROM t_trx ORDER BY id")])
    connection.commit()
    seen.append(error_of(lambda: do(connection, "INSERT INTO t_trx VALUES (2, 2)")))
    do(connection, "INSERT INTO t_trx VALUES (5, 5)")
    connection.commit()
    seen.append(count(connection))
    connection.commit()
    equal(seen[:4], [1, 0, 0, [2, 4]])
    equal(seen[5], 3)
    do(connection, "INSERT INTO t_trx VALUES (6, 6)")
    do(connection, "CREATE TABLE IF NOT EXISTS t_implicit (id INT)")
    connection.rollback()
    seen.append(count(connection))
    equal(seen[6], 4)
    connection.close()
    other.close()
    return seen


def isolation():
    connection, other = A.connect(), A.connect()
    variable = "@@tx_isolation" if FAMILY == "mariadb" else "@@transaction_isolation"
    table(connection, "t_iso", "id INT PRIMARY KEY, v INT")
    do(connection, "INSERT INTO t_iso VALUES (1, 1)")
    seen = []
    for level in ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
        do(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        seen.append(one(connection, f"SELECT {variable}"))
    do(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    do(connection, "START TRANSACTION")
    first = one(connection, "SELECT v FROM t_iso WHERE id = 1 LOCK IN SHARE MODE" if FAMILY == "mariadb" else "SELECT v FROM t_iso WHERE id = 1")
    do(connection, "COMMIT")
    do(connection, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    do(connection, "START TRANSACTION")
    do(connection, "UPDATE t_iso SET v = 2")
    do(connection, "COMMIT")
    seen.append([first, one(connection, f"SELECT {variable}"), one(connection, "SELECT v FROM t_iso")])
    do(connection, "START TRANSACTION READ ONLY")
    seen.append(error_of(lambda: do(connection, "UPDATE t_iso SET v = 3")))
    seen.append(rows(connection, "SELECT * FROM t_iso"))
    do(connection, "COMMIT")
    do(connection, "SET SESSION TRANSACTION READ ONLY")
    seen.append(error_of(lambda: do(connection, "UPDATE t_iso SET v = 3")))
    do(connection, "SET SESSION TRANSACTION READ WRITE")
    do(connection, "UPDATE t_iso SET v = 4")
    do(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    seen.append(one(connection, "SELECT v FROM t_iso"))
    do(connection, "ROLLBACK")
    if NAME.startswith("mysql-connector"):
        # MariaDB's greeting says 5.5.5, which the driver believes to be too old for readonly.
        connection.start_transaction(isolation_level="READ COMMITTED", readonly=True if FAMILY == "mysql" else None)
        seen.append(one(connection, "SELECT v FROM t_iso"))
        connection.commit()
    equal(one(connection, "SELECT v FROM t_iso"), 4)
    connection.close()
    other.close()
    return seen


def autocommit():
    connection, other = A.connect(autocommit=False), A.connect()
    table(connection, "t_auto", "id INT PRIMARY KEY")
    connection.commit()
    seen = [A.in_transaction(connection), one(connection, "SELECT @@autocommit"), one(connection, "SELECT COUNT(*) FROM t_auto")]
    seen.append(A.in_transaction(connection))
    do(other, "INSERT INTO t_auto VALUES (1)")
    seen.append(one(connection, "SELECT COUNT(*) FROM t_auto"))
    connection.commit()
    seen.append(A.in_transaction(connection))
    seen.append(one(connection, "SELECT COUNT(*) FROM t_auto FOR UPDATE"))
    connection.rollback()
    equal([seen[1], seen[2], seen[4], seen[6]], [0, 0, 0, 1])
    do(connection, "SET autocommit = 1")
    do(connection, "INSERT INTO t_auto VALUES (2)")
    connection.rollback()
    seen.append(one(connection, "SELECT COUNT(*) FROM t_auto"))
    equal(seen[-1], 2)
    connection.close()
    other.close()
    return seen


def pool():
    workers = 8
    pooled = A.pool(workers)
    take = pooled or A.connect
    setup = A.connect()
    table(setup, "t_pool", "id INT AUTO_INCREMENT PRIMARY KEY, worker INT, n INT")
    failures = []

    def work(worker):
        try:
            for number in range(25):
                connection = take()
                A.ping(connection)
                if pooled and one(connection, "SELECT @mine") is not None:
                    failures.append("a pooled session had another's variable")
                do(connection, f"SET @mine = {worker * 1000 + number}")
                do(connection, "INSERT INTO t_pool (worker, n) VALUES (%s, %s)", (worker, number))
                got = one(connection, "SELECT @mine")
                if got != worker * 1000 + number:
                    failures.append(f"worker {worker} read {got}")
                if one(connection, "SELECT COUNT(*) FROM t_pool WHERE worker = %s", (worker,)) != number + 1:
                    failures.append(f"worker {worker} does not see its rows")
                connection.close()
        except Exception as error:
            failures.append(f"worker {worker}: {type(error).__name__} {error}")

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    equal(failures[:5], [])
    total = one(setup, "SELECT COUNT(*) FROM t_pool FOR UPDATE")
    equal(total, workers * 25)
    setup.close()
    return total


def session_state():
    connection = A.connect()
    seen = []
    do(connection, "SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')")
    do(connection, "SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')")
    do(connection, "SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5")
    seen.append(rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode"))
    for number in range(20):
        rows(connection, "SELECT 1")
    seen.append(rows(connection, "SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d"))
    do(connection, "SET @total = (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'mysql')")
    do(connection, "SELECT 7, 8 INTO @x, @y")
    rows(connection, "SELECT @n := 5")
    seen.append(rows(connection, "SELECT @total, @x + @y, @n"))
    equal([int(value) for value in seen[-1][0]], [1, 15, 5])
    if NAME != "mariadb-connector-python":  # cannot read the reply
        do(connection, "SET NAMES latin1")
        do(connection, "SET NAMES utf8mb4")
    A.select_schema(connection, OTHER_DATABASE)
    seen.append(one(connection, "SELECT DATABASE()"))
    do(connection, f"USE {DATABASE}")
    seen.append(one(connection, "SELECT DATABASE()"))
    do(connection, "SET SESSION sql_select_limit = 2")
    seen.append(len(rows(connection, "SELECT 1 UNION SELECT 2 UNION SELECT 3")))
    do(connection, "SET SESSION sql_select_limit = DEFAULT")
    seen.append(len(rows(connection, "SELECT 1 UNION SELECT 2 UNION SELECT 3")))
    do(connection, "SET timestamp = 1000000000")
    seen.append(one(connection, "SELECT UNIX_TIMESTAMP(NOW())"))
    do(connection, "SET timestamp = DEFAULT")
    do(connection, "SET foreign_key_checks = 0, unique_checks = 0, SESSION wait_timeout = 2147483, lc_time_names = 'de_DE'")
    seen.append(rows(connection, "SELECT @@foreign_key_checks, @@unique_checks, @@wait_timeout, DATE_FORMAT('2024-03-01', '%M')"))
    seen.append(error_of(lambda: do(connection, "SET sql_mode = 'NO_SUCH_MODE'")))
    seen.append(rows(connection, "SHOW SESSION VARIABLES LIKE 'lc_time_names'"))
    connection.close()
    return seen


def temp_tables():
    connection, other = A.connect(), A.connect()
    do(connection, "CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))")
    do(connection, "INSERT INTO t_temp VALUES (1, 'a'), (2, 'b')")
    seen = [one(connection, "SELECT COUNT(*) FROM t_temp"), error_of(lambda: rows(other, "SELECT * FROM t_temp"))]
    seen.append(error_of(lambda: do(connection, "INSERT INTO t_temp VALUES (1, 'dup')")))
    do(connection, "CREATE TEMPORARY TABLE t_copy AS SELECT * FROM t_temp")
    if A.prepared:
        cursor = A.prepared_cursor(connection)
        cursor.execute("SELECT v FROM t_temp WHERE id = %s", (2,))
        seen.append(list(cursor.fetchall()))
        cursor.close()
    do(connection, "UPDATE t_temp SET v = 'z' WHERE id = 1")
    seen.append(rows(connection, "SELECT v FROM t_temp WHERE id = 1"))
    do(connection, "DROP TEMPORARY TABLE t_temp")
    seen.append(one(connection, "SELECT COUNT(*) FROM t_copy"))
    do(connection, "DROP TABLE t_copy")
    seen.append(error_of(lambda: rows(connection, "SELECT * FROM t_copy")))
    equal(seen[0], 2)
    connection.close()
    other.close()
    return seen


def own_writes():
    connection = A.connect()
    table(connection, "t_own", "id INT PRIMARY KEY, v INT")
    for number in range(200):
        do(connection, "INSERT INTO t_own VALUES (%s, 0)", (number,))
        equal(one(connection, "SELECT COUNT(*) FROM t_own"), number + 1, "rows after an insert")
        do(connection, "UPDATE t_own SET v = v + 1 WHERE id = %s", (number,))
        equal(one(connection, "SELECT v FROM t_own WHERE id = %s", (number,)), 1, "a value after its update")
    connection.close()
    return 200


def insert_id():
    connection = A.connect()
    table(connection, "t_ids", "id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT")
    cursor = A.cursor(connection)
    cursor.execute("INSERT INTO t_ids (u, v) VALUES (1, 1), (2, 2), (3, 3)")
    seen = [cursor.lastrowid, cursor.rowcount]
    seen.append(rows(connection, "SELECT LAST_INSERT_ID(), 1"))
    seen.append(rows(connection, "SELECT LAST_INSERT_ID()"))
    cursor.execute("INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9")
    seen.append(cursor.rowcount)
    seen.append(one(connection, "SELECT ROW_COUNT()"))
    cursor.execute("UPDATE t_ids SET v = 9 WHERE u = 2")
    seen.append(cursor.rowcount)
    cursor.execute("UPDATE t_ids SET v = 8")
    seen.append([cursor.rowcount, one(connection, "SELECT ROW_COUNT()")])
    cursor.execute("REPLACE INTO t_ids (u, v) VALUES (3, 1)")
    seen.append([cursor.rowcount, cursor.lastrowid, one(connection, "SELECT LAST_INSERT_ID()")])
    rows(connection, "SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1")
    seen.append(one(connection, "SELECT FOUND_ROWS()"))
    cursor.execute("UPDATE t_ids SET v = LAST_INSERT_ID(v + 100) WHERE u = 1")
    seen.append([cursor.lastrowid, one(connection, "SELECT LAST_INSERT_ID()")])
    cursor.execute("DELETE FROM t_ids")
    seen.append(cursor.rowcount)
    cursor.close()
    connection.close()
    equal(seen[2], [(1, 1)])
    return seen


def locks():
    connection, other = A.connect(), A.connect()
    name = f"lock_{DATABASE}"
    table(connection, "t_lock", "id INT PRIMARY KEY")
    seen = [one(connection, f"SELECT GET_LOCK('{name}', 5)"), one(other, f"SELECT GET_LOCK('{name}', 0)"), one(other, f"SELECT IS_FREE_LOCK('{name}')")]
    seen.append(one(connection, f"SELECT RELEASE_LOCK('{name}')"))
    seen.append(one(other, f"SELECT GET_LOCK('{name}', 5)"))
    seen.append(one(connection, f"SELECT IS_USED_LOCK('{name}')") == A.thread_id(other))
    other.close()
    seen.append(one(connection, f"SELECT GET_LOCK('{name}', 5)"))
    seen.append(one(connection, f"SELECT RELEASE_LOCK('{name}')"))
    other = A.connect()
    do(connection, "LOCK TABLES t_lock WRITE")
    do(connection, "INSERT INTO t_lock VALUES (1)")
    seen.append(error_of(lambda: rows(connection, "SELECT * FROM t_types")))
    do(other, "SET SESSION lock_wait_timeout = 1")
    seen.append(error_of(lambda: do(other, "INSERT INTO t_lock VALUES (2)")))
    seen.append(one(connection, "SELECT COUNT(*) FROM t_lock"))
    do(connection, "UNLOCK TABLES")
    do(other, "INSERT INTO t_lock VALUES (2)")
    connection.close()
    other.close()
    return seen


def errors():
    connection = A.connect()
    table(connection, "t_child", "id INT PRIMARY KEY")
    table(connection, "t_err", "id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT")
    do(connection, "INSERT INTO t_err VALUES (1, 'a', 1)")
    seen = []
    for sql in (
        "INSERT INTO t_err VALUES (1, 'b', 1)", "SELEC 1", "SELECT * FROM no_such_table", "SELECT no_such_column FROM t_err",
        "INSERT INTO t_err VALUES (2, NULL, 1)", "INSERT INTO t_err VALUES (2, 'too long', 1)", "INSERT INTO t_err VALUES (2, 'a', 1000)",
        "SELECT no_such_function(1)", "CALL no_such_procedure()", "USE no_such_schema", "SET no_such_variable = 1",
        "CREATE TABLE t_err (id INT)", "DROP TABLE no_such_table", "SELECT 'ü' + no_such_column", "", "SELECT (SELECT id FROM t_err UNION SELECT 2)",
        "SIGNAL SQLSTATE '01234'" if FAMILY == "mysql" else "SIGNAL SQLSTATE '45678' SET MESSAGE_TEXT = 'ünï'", "CREATE DATABASE mysql", "GRANT ALL ON *.* TO nobody",
    ):
        seen.append(error_of_or_value(lambda: rows(connection, sql)))
    seen.append(rows(connection, "SELECT COUNT(*), DATABASE() FROM t_err"))
    if A.prepared:
        def fails(sql, parameters=()):
            cursor = A.prepared_cursor(connection)
            cursor.execute(sql, parameters)
            cursor.fetchall()

        for sql, parameters in (("SELECT * FROM no_such_table WHERE id = %s", (1,)), ("INSERT INTO t_err VALUES (%s, 'x', 1)", (1,)), ("SELEC %s", (1,))):
            seen.append(error_of(lambda: fails(sql, parameters)))
    equal([row[1] for row in seen[:4]], [1062, 1064, 1146, 1054])
    connection.close()
    return seen


def warnings():
    connection = A.connect()
    do(connection, "SET sql_mode = ''")
    table(connection, "t_warn", "id INT PRIMARY KEY, v VARCHAR(3), n TINYINT")
    seen = []
    import warnings as python_warnings

    python_warnings.simplefilter("ignore")
    for sql in (
        "INSERT INTO t_warn VALUES (1, 'too long', 1000)", "DROP TABLE IF EXISTS no_such_table", "SELECT 1/0, CAST('x' AS SIGNED)",
        "INSERT IGNORE INTO t_warn VALUES (1, 'a', 1)",
    ):
        cursor = A.cursor(connection)
        cursor.execute(sql)
        if cursor.description:
            cursor.fetchall()
        count = getattr(cursor, "warning_count", None) or getattr(cursor, "warnings", None)
        cursor.close()
        seen.append([count if isinstance(count, int) else None, rows(connection, "SHOW WARNINGS"), rows(connection, "SHOW COUNT(*) WARNINGS"), rows(connection, "SELECT @@warning_count")])
    equal(len(seen[0][1]), 2)
    connection.close()
    return seen


def habits():
    if NAME == "pymysql":
        # Frameworks on PyMySQL set these at connect; the driver sends SET AUTOCOMMIT only when the flag in the greeting differs.
        connection = A.connect(init_command="SET NAMES utf8mb4, SESSION sql_mode = 'STRICT_TRANS_TABLES,ANSI_QUOTES', autocommit = 0")
        seen = rows(connection, 'SELECT @@sql_mode, @@autocommit, @@character_set_client, "NAME" FROM (SELECT 1 AS "NAME") AS "x"')
        connection.autocommit(True)
        seen += rows(connection, "SELECT @@autocommit")
        connection.ping(reconnect=True)
        connection.close()
        return seen
    if NAME.startswith("mysql-connector-python"):
        # Prepared cursors send COM_STMT_RESET ahead of each execution; session pools reset by themselves.
        connection = A.connect()
        cursor = A.prepared_cursor(connection)
        seen = []
        for number in range(20):
            cursor.execute("SELECT %s + @@group_concat_max_len * 0", (number,))
            seen += list(cursor.fetchall())
        connection.reset_session(user_variables={"a": "5"}, session_variables={"group_concat_max_len": 99})
        seen += rows(connection, "SELECT @a, @@group_concat_max_len")
        connection.close()
        return seen
    raise Skip("nothing of its own")


main({
    "connect": connect, "types_text": types_text, "types_prepared": types_prepared, "metadata": metadata, "prepared_many": prepared_many,
    "sql_prepare": sql_prepare, "cursor_fetch": cursor_fetch, "unbuffered": unbuffered, "batch": batch, "local_infile": local_infile,
    "kill_query": kill_query, "kill_connection": kill_connection, "timeout": timeout, "tls": tls, "compression": compression,
    "change_user": change_user, "reset": reset, "multi_statements": multi_statements, "procedures": procedures, "out_params": out_params,
    "large_17mb": lambda: large(17 << 20), "large_40mb": lambda: large(40 << 20), "charset": charset, "transactions": transactions,
    "isolation": isolation, "autocommit": autocommit, "pool": pool, "session_state": session_state, "temp_tables": temp_tables,
    "own_writes": own_writes, "insert_id": insert_id, "locks": locks, "errors": errors, "warnings": warnings, "habits": habits,
})
