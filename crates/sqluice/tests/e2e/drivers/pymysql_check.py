"""What applications do with PyMySQL: arguments are host, port, user, password, database and a folder for a file."""

import os
import sys

import pymysql

host, port, user, password, database, folder = sys.argv[1:]


def connect(**more):
    return pymysql.connect(host=host, port=int(port), user=user, password=password, database=database, **more)


def one(cursor, sql, *values):
    cursor.execute(sql, values)
    return cursor.fetchone()[0]


with connect(autocommit=True, charset="utf8mb4", local_infile=True) as connection, connection.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS pymysql_check")
    cursor.execute("CREATE TABLE pymysql_check (id INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(50) CHARACTER SET utf8mb4)")
    cursor.execute("INSERT INTO pymysql_check (t) VALUES (%s)", ("smörgås 🍞",))
    assert cursor.lastrowid == 1
    assert one(cursor, "/* sqluice: primary */ SELECT t FROM pymysql_check WHERE id = %s", 1) == "smörgås 🍞"
    assert cursor.executemany("INSERT INTO pymysql_check (t) VALUES (%s)", [("a",), ("b",), ("c",)]) == 3
    assert one(cursor, "/* sqluice: primary */ SELECT COUNT(*) FROM pymysql_check") == 4
    path = os.path.join(folder, "rows.txt")
    with open(path, "w") as file:
        file.write("x\ny\n")
    cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE pymysql_check (t)")
    assert cursor.rowcount == 2
    try:
        cursor.execute("SELECT * FROM no_such_table")
        raise SystemExit("no error")
    except pymysql.err.ProgrammingError as error:
        assert error.args[0] == 1146, error
    connection.ping()
    connection.select_db("information_schema")
    assert one(cursor, "SELECT DATABASE()") == "information_schema"

# PyMySQL's default: autocommit is switched off at connect.
with connect(init_command="SET time_zone = '+02:00'") as connection, connection.cursor() as cursor:
    assert one(cursor, "SELECT @@time_zone") == "+02:00"
    cursor.execute("INSERT INTO pymysql_check (t) VALUES ('rolled back')")
    assert one(cursor, "SELECT COUNT(*) FROM pymysql_check") == 7
    connection.rollback()
    assert one(cursor, "SELECT COUNT(*) FROM pymysql_check") == 6
    cursor.execute("DELETE FROM pymysql_check WHERE id = 1")
    connection.commit()

with connect(ssl={"check_hostname": False, "verify_mode": False}) as connection, connection.cursor() as cursor:
    assert one(cursor, "/* sqluice: primary */ SELECT COUNT(*) FROM pymysql_check") == 5

with connect(cursorclass=pymysql.cursors.SSDictCursor, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS) as connection:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM seq_1_to_5000; SELECT 2 AS two")
        assert sum(row["seq"] for row in cursor) == 5000 * 5001 // 2
        assert cursor.nextset() and cursor.fetchone() == {"two": 2}

print("all good")
