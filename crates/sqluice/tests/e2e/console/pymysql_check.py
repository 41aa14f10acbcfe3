"""What monitoring does with PyMySQL: arguments are the console's port and the key."""

import sys

import pymysql

port, key = sys.argv[1:]


def connect(**more):
    return pymysql.connect(host="127.0.0.1", port=int(port), user="admin", password=key, charset="utf8mb4", **more)


with connect(cursorclass=pymysql.cursors.DictCursor, database="stats") as connection, connection.cursor() as cursor:
    cursor.execute("SELECT * FROM stats_mysql_connection_pool ORDER BY hostgroup LIMIT %s", (10,))
    rows = cursor.fetchall()
    assert len(rows) == 3 and rows[0]["hostgroup"] == 0 and rows[0]["status"] == "ONLINE", rows
    assert isinstance(rows[0]["srv_port"], int) and rows[0]["Bytes_data_sent"] == 0, rows
    cursor.execute("SELECT lag_ms, 1.5 AS half, 'it''s' AS text, NULL AS absent, 2 AS whole FROM servers LIMIT 1")
    row = cursor.fetchone()
    assert row["half"] == 1.5 and row["text"] == "it's" and row["absent"] is None and row["whole"] == 2, row
    cursor.execute("SELECT count(*) AS n FROM settings WHERE value = %s", ("a'b\\c\"d",))
    assert cursor.fetchone()["n"] == 0
    cursor.execute("SELECT form FROM sessions WHERE 0")
    assert cursor.fetchall() in ((), [])
    try:
        cursor.execute("INSERT INTO marks VALUES (1)")
        raise SystemExit("a write went through")
    except pymysql.err.MySQLError as error:
        assert error.args[0] == 1290, error
    connection.ping()
    connection.select_db("main")
    connection.rollback()

try:
    connect(ssl={"check_hostname": False}).close()
except pymysql.err.OperationalError as error:
    raise SystemExit(f"TLS: {error}")

print("all good")
