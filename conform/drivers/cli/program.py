"""The driver matrix by MariaDB's command-line client: each case is a script, what is compared is what it prints."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from common import CA, DATABASE, FAMILY, HOST, OTHER_DATABASE, PASSWORD, PORT, SCRATCH, USER, Skip, equal, main  # noqa: E402

T = """DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'a'), (2, 'ü🦀'), (3, NULL);"""


def start(*options, user=USER, password=PASSWORD, database=DATABASE):
    secure = any(option.startswith("--ssl") for option in options)
    command = ["mariadb", "--no-defaults", f"-h{HOST}", f"-P{PORT}", f"-u{user}", f"-p{password}", "--default-character-set=utf8mb4"]
    command += [*options, *([] if secure else ["--skip-ssl"]), database]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def sql(text, *options, **more):
    """Everything the client prints, but times; it goes on behind errors."""
    out, _ = start("-f", "-vv", *options, **more).communicate(text.encode(), timeout=60)
    return re.sub(r"\(\d+[.,]\d+ sec\)|\d+\.\d+ sec", "", out.decode("utf-8", "replace")).splitlines()


def plain(text, *options, **more):
    out, _ = start("-N", "-B", *options, **more).communicate(text.encode(), timeout=90)
    return out.decode("utf-8", "replace")


def connect():
    found = plain("SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@collation_connection, @@sql_mode, @@version; SELECT CONNECTION_ID() > 0;")
    status = [line for line in sql("status\n") if re.match(r"Server|Current|Protocol|Db|Client|Conn", line) and "id:" not in line]
    return [found, status, plain("SELECT 1", password="wrong"), plain("SELECT 1", database="no_such_schema")]


def types_text():
    values = "1, 127, 65535, 9223372036854775807, 18446744073709551615, 1.5, 0.1, 12345678901234567890.01, '9999-12-31', '838:59:59', '2038-01-19 03:14:07.999999', 'Zürich 🦀', x'00ff27', b'1010'"
    return sql(f"""DROP TABLE IF EXISTS t_types; CREATE TABLE t_types (id INT, ti TINYINT, si SMALLINT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, de DECIMAL(30,2), da DATE,
        tm TIME, dt DATETIME(6), v VARCHAR(30), b VARBINARY(10), bt BIT(4)); INSERT INTO t_types VALUES ({values}); INSERT INTO t_types (id) VALUES (2); SELECT * FROM t_types;""", "-t", "--binary-as-hex")


def unbuffered():
    if FAMILY == "mariadb":
        many = "SELECT seq FROM seq_1_to_20000"
    else:
        many = "SET cte_max_recursion_depth = 30000; WITH RECURSIVE n AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 20000) SELECT seq FROM n"
    out = plain(many, "--quick")
    equal(sum(int(line) for line in out.split()), 20000 * 20001 // 2)
    process = start("-N", "--quick")
    process.stdin.write(b"SELECT REPEAT('x', 100) FROM information_schema.COLUMNS a, information_schema.COLUMNS b LIMIT 1000000;\n")
    process.stdin.close()
    process.stdout.read(1000)
    process.kill()
    process.wait()
    return len(out)


def local_infile():
    path = os.path.join(SCRATCH, "load-cli.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{number},value ü {number}\n" for number in range(20000))
    load = f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t_load FIELDS TERMINATED BY ',';".replace(path, os.path.basename(path))
    return sql(f"""DROP TABLE IF EXISTS t_load; CREATE TABLE t_load (id INT PRIMARY KEY, v VARCHAR(100)); {load} SELECT COUNT(*), SUM(id), MAX(v) FROM t_load;
        LOAD DATA LOCAL INFILE 'no-such-file' INTO TABLE t_load; SELECT COUNT(*) FROM t_load;""", "--local-infile=1")


def with_id(script):
    """A client that has told its connection's id and runs the script, and the id."""
    process = start("-N", "-f", "-n")
    process.stdin.write(b"SELECT CONNECTION_ID();\n")
    process.stdin.flush()
    number = process.stdout.readline().decode().strip()
    process.stdin.write(script)
    process.stdin.flush()
    return process, number


def kill_query():
    process, number = with_id(b"SELECT SLEEP(20);\nDO SLEEP(20);\nSELECT 'after';\n")
    process.stdin.close()
    for _ in range(2):
        time.sleep(0.7)
        plain(f"KILL QUERY {number}")
    started = time.monotonic()
    out = process.stdout.read().decode()
    process.wait(10)
    assert time.monotonic() - started < 10
    return [out, plain("KILL QUERY 999999999")]


def kill_connection():
    process, number = with_id(b"")
    plain(f"KILL {number}")
    time.sleep(0.2)
    process.stdin.write(b"SELECT 1 + 1;\n")
    process.stdin.close()
    out = process.stdout.read().decode()
    process.wait(10)
    return ["2" in out.splitlines(), plain(f"KILL {number}").replace(number, "ID")]


def timeout():
    # Interrupting the client sends KILL QUERY on a connection of its own.
    process = start("-N", "-f", "-n")
    process.stdin.write(b"DO SLEEP(15);\nSELECT 'after';\n")
    process.stdin.close()
    time.sleep(0.7)
    started = time.monotonic()
    process.send_signal(2)
    out = process.stdout.read().decode()
    process.wait(20)
    assert time.monotonic() - started < 8
    return out


def compression():
    text = "compressible " * 60000
    out = plain(f"SELECT '{text}', LENGTH('{text}')", "--compress", "--max-allowed-packet=64M")
    equal(out.split("\t")[0], text)
    return len(out)


def large(size):
    text = "0123456789abcdef" * (size // 16)
    out = plain(f"SELECT LENGTH('{text}'), SHA2('{text}', 256);\nSELECT REPEAT('0123456789abcdef', {size // 16});\n", "--max-allowed-packet=128M")
    equal(out.splitlines()[1], text)
    return out.splitlines()[0]


def charset():
    setup = """DROP TABLE IF EXISTS t_chars; CREATE TABLE t_chars (id INT, u VARCHAR(50) CHARACTER SET utf8mb4, l VARCHAR(50) CHARACTER SET latin1); INSERT INTO t_chars VALUES (1, 'ü🦀漢字', 'äöü');
        SELECT u, l, HEX(u), HEX(l) FROM t_chars; SET NAMES latin1; SELECT HEX(l), @@character_set_results FROM t_chars;\ncharset utf8mb4\nSELECT u, l FROM t_chars;"""
    return [sql(setup), plain("SELECT HEX(u), HEX(l), @@collation_connection FROM t_chars", "--default-character-set=latin1")]


def pool():
    processes = [start("-N", "-B") for _ in range(8)]
    for number, process in enumerate(processes):
        process.stdin.write("".join(f"SET @mine = {number * 1000 + turn}; SELECT @mine;\n" for turn in range(25)).encode())
        process.stdin.close()
    for number, process in enumerate(processes):
        out = process.stdout.read().decode()
        process.wait(30)
        equal(out.split(), [str(number * 1000 + turn) for turn in range(25)])
    return 8


def own_writes():
    lines = "".join(f"INSERT INTO t_own VALUES ({number}); SELECT COUNT(*) FROM t_own;\n" for number in range(200))
    out = plain("DROP TABLE IF EXISTS t_own; CREATE TABLE t_own (id INT PRIMARY KEY);" + lines)
    equal(out.split(), [str(number + 1) for number in range(200)])
    return 200


def lacks(what):
    def skip():
        raise Skip(what)

    return skip


TEXT_ONLY = lacks("the client has the text protocol only")
LOCK = f"x{DATABASE}"
SCRIPTS = {
    "metadata": T + "SELECT id, v, COUNT(*) AS c FROM t AS x GROUP BY id; SHOW COLUMNS FROM t; SELECT 'ü' AS `ä b`;",
    "sql_prepare": "PREPARE twice FROM 'SELECT ? * 2'; SET @n = 21; EXECUTE twice USING @n; SET @t = CONCAT('SELECT ', 1 + 1); PREPARE o FROM @t; EXECUTE o; DEALLOCATE PREPARE twice; EXECUTE twice USING @n;",
    "multi_statements": "delimiter //\n" + T + "UPDATE t SET v = 'z'; SELECT * FROM t; SET @x = 4; SELECT @x//\nSELECT 1; SELECT * FROM no_such_table; SELECT 3//\nSELECT @x//\n",
    "procedures": """DROP PROCEDURE IF EXISTS p; DELIMITER //
CREATE PROCEDURE p(n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'a warning', MYSQL_ERRNO = 1000; END//
DELIMITER ;
CALL p(5); SHOW WARNINGS; CALL p(6); CALL no_such_procedure();""",
    "out_params": """DROP PROCEDURE IF EXISTS q; DELIMITER //
CREATE PROCEDURE q(a INT, OUT b INT, INOUT c VARCHAR(9)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END//
DELIMITER ;
SET @c = 'x'; CALL q(4, @b, @c); SELECT @b, @c;""",
    "transactions": T + """BEGIN; DELETE FROM t; SELECT COUNT(*) FROM t; ROLLBACK; SELECT COUNT(*) FROM t; BEGIN; UPDATE t SET v = 'b'; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; COMMIT; SELECT * FROM t;
        BEGIN; INSERT INTO t VALUES (1, 'x'); COMMIT; SELECT COUNT(*) FROM t;""",
    "isolation": T + """SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION READ ONLY; DELETE FROM t; SELECT COUNT(*) FROM t; COMMIT;
        SET TRANSACTION READ ONLY; BEGIN; DELETE FROM t; COMMIT; DELETE FROM t WHERE id = 1; SELECT COUNT(*) FROM t;""",
    "autocommit": T + "SET autocommit = 0; SELECT COUNT(*) FROM t; DELETE FROM t; SELECT COUNT(*) FROM t; ROLLBACK; SELECT COUNT(*) FROM t; SET autocommit = 1; SELECT @@autocommit;",
    "session_state": f"""SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES'), time_zone = '+02:00', @a = 1, @b = 'text'; SELECT @a, @b, @@sql_mode, @@time_zone; SELECT 7 INTO @x; SELECT @x;
use {OTHER_DATABASE}
SELECT DATABASE(); SET no_such_variable = 1; SHOW VARIABLES LIKE 'time_zone'; SET NAMES latin1; SELECT @@character_set_client;""",
    "temp_tables": "CREATE TEMPORARY TABLE g (id INT PRIMARY KEY); INSERT INTO g VALUES (1), (2); INSERT INTO g VALUES (1); SELECT * FROM g; DROP TEMPORARY TABLE g; SELECT * FROM g;",
    "insert_id": """DROP TABLE IF EXISTS t_ids; CREATE TABLE t_ids (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE); INSERT INTO t_ids (u) VALUES (1), (2); SELECT LAST_INSERT_ID(), ROW_COUNT(); SELECT ROW_COUNT();
        INSERT INTO t_ids (u) VALUES (2) ON DUPLICATE KEY UPDATE u = 9; SELECT ROW_COUNT(); SELECT SQL_CALC_FOUND_ROWS * FROM t_ids LIMIT 1; SELECT FOUND_ROWS(); REPLACE INTO t_ids (u) VALUES (9); SELECT LAST_INSERT_ID();""",
    "locks": T + f"SELECT GET_LOCK('{LOCK}', 1); SELECT IS_FREE_LOCK('{LOCK}'); SELECT RELEASE_LOCK('{LOCK}'); LOCK TABLES t READ; INSERT INTO t VALUES (9, ''); SELECT COUNT(*) FROM t; SELECT * FROM t_none; UNLOCK TABLES; INSERT INTO t VALUES (9, '');",
    "errors": T + """INSERT INTO t VALUES (1, 'x'); SELEC 1; SELECT * FROM no_such_table; SELECT nothing FROM t; SELECT no_such_function(1); CALL nothing(); USE no_such_schema; SET nothing = 1; DROP TABLE nothing;
        SELECT 'ü' + nothing; CREATE TABLE t (id INT); INSERT INTO t VALUES (7, REPEAT('x', 30)); SELECT COUNT(*) FROM t;""",
    "warnings": "SET sql_mode = ''; DROP TABLE IF EXISTS no_such_table; SHOW WARNINGS; SELECT 1/0, CAST('x' AS SIGNED); CREATE TEMPORARY TABLE w (v VARCHAR(2)); INSERT INTO w VALUES ('long'); SELECT @@warning_count;",
    # To complete names it reads all tables and columns at its start, by COM_FIELD_LIST.
    "habits": "SELECT 1;\nrehash\nSELECT 2;",
}
OPTIONS = {"metadata": ["-t", "--column-type-info"], "warnings": ["--show-warnings"], "habits": ["--auto-rehash"]}

main({
    "connect": connect, "types_text": types_text, "types_prepared": TEXT_ONLY, "prepared_many": TEXT_ONLY, "cursor_fetch": TEXT_ONLY, "unbuffered": unbuffered,
    "batch": lacks("the client has no batches"), "local_infile": local_infile, "kill_query": kill_query, "kill_connection": kill_connection, "timeout": timeout,
    "tls": lambda: plain("SELECT LENGTH(REPEAT('tls', 100000))", f"--ssl-ca={CA}", "--ssl-verify-server-cert"), "compression": compression,
    "change_user": lacks("the client has no change of user"), "reset": lacks("the client has no reset"), "large_17mb": lambda: large(17 << 20),
    "large_40mb": lambda: large(40 << 20), "charset": charset, "pool": pool, "own_writes": own_writes,
    **{name: lambda name=name: sql(SCRIPTS[name], *OPTIONS.get(name, [])) for name in SCRIPTS},
})
