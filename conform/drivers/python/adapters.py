"""What differs between Python's drivers: how to connect, and what has other names."""

from common import CA, DATABASE, HOST, OTHER_DATABASE, OTHER_PASSWORD, OTHER_USER, PASSWORD, PORT, USER, Skip


class Adapter:
    """A DB-API driver. Methods that raise Skip say what it lacks."""

    prepared = False

    def connect(self, **options):
        wanted = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD, "database": DATABASE}
        wanted.update(options)
        return self.open(wanted)

    def cursor(self, connection):
        return connection.cursor()

    def prepared_cursor(self, connection):
        raise Skip("the driver puts parameters into the text")

    def stepping_cursor(self, connection):
        raise Skip("the driver has no server-side cursors")

    def change_user(self, connection, user, password, database):
        raise Skip("the driver has no change of user")

    def reset(self, connection):
        raise Skip("the driver has no reset")

    def pool(self, size):
        return None

    def warnings(self, connection, cursor):
        return None


class PyMysql(Adapter):
    def open(self, o):
        import pymysql

        options = {key: o[key] for key in ("host", "port", "user", "password", "database")}
        options["charset"] = o.get("charset", "utf8mb4")
        options["autocommit"] = o.get("autocommit", True)
        if o.get("local_infile"):
            options["local_infile"] = True
        if o.get("multi"):
            options["client_flag"] = pymysql.constants.CLIENT.MULTI_STATEMENTS
        if o.get("tls"):
            options.update(ssl_ca=CA, ssl_verify_cert=True, ssl_verify_identity=True)
        else:
            options["ssl_disabled"] = True
        if o.get("compress"):
            raise Skip("the driver has no compression")
        if o.get("read_timeout"):
            options["read_timeout"] = o["read_timeout"]
        if o.get("init_command"):
            options["init_command"] = o["init_command"]
        return pymysql.connect(**options)

    def thread_id(self, connection):
        return connection.thread_id()

    def server_info(self, connection):
        return connection.get_server_info()

    def streaming_cursor(self, connection):
        import pymysql

        return connection.cursor(pymysql.cursors.SSCursor)

    def ping(self, connection):
        connection.ping(reconnect=False)

    def select_schema(self, connection, name):
        connection.select_db(name)

    def in_transaction(self, connection):
        return bool(connection.server_status & 1)

    def statement_timeout(self):
        return self.connect(read_timeout=2)


class MysqlClient(Adapter):
    def open(self, o):
        import MySQLdb
        from MySQLdb.constants import CLIENT

        options = {key: o[key] for key in ("host", "port", "user", "password", "database")}
        options["charset"] = o.get("charset", "utf8mb4")
        options["autocommit"] = o.get("autocommit", True)
        options["local_infile"] = 1 if o.get("local_infile") else 0
        if o.get("multi") is False:
            options["client_flag"] = 0
        if o.get("tls"):
            options["ssl"] = {"ca": CA}
        if o.get("compress"):
            options["compress"] = True
        if o.get("read_timeout"):
            options["read_timeout"] = o["read_timeout"]
        return MySQLdb.connect(**options)

    def thread_id(self, connection):
        return connection.thread_id()

    def server_info(self, connection):
        return connection.get_server_info()

    def streaming_cursor(self, connection):
        import MySQLdb.cursors

        return connection.cursor(MySQLdb.cursors.SSCursor)

    def ping(self, connection):
        connection.ping()

    def select_schema(self, connection, name):
        connection.select_db(name)

    def in_transaction(self, connection):
        return None

    def change_user(self, connection, user, password, database):
        connection.change_user(user, password, database)

    def statement_timeout(self):
        return self.connect(read_timeout=2)


class MysqlConnector(Adapter):
    prepared = True

    def __init__(self, pure):
        self.pure = pure

    def options(self, o):
        options = {key: o[key] for key in ("host", "port", "user", "password", "database")}
        options["use_pure"] = self.pure
        options["charset"] = o.get("charset", "utf8mb4")
        options["autocommit"] = o.get("autocommit", True)
        if o.get("local_infile"):
            options["allow_local_infile"] = True
        if o.get("tls"):
            options.update(ssl_ca=CA, ssl_verify_cert=True, ssl_verify_identity=True)
        elif not o.get("tls_maybe"):
            options["ssl_disabled"] = True
        if o.get("compress"):
            options["compress"] = True
        if o.get("read_timeout"):
            options["read_timeout"] = o["read_timeout"]
        return options

    def open(self, o):
        import mysql.connector

        return mysql.connector.connect(**self.options(o))

    def cursor(self, connection):
        return connection.cursor(buffered=True)

    def prepared_cursor(self, connection):
        return connection.cursor(prepared=True)

    def thread_id(self, connection):
        return connection.connection_id

    def server_info(self, connection):
        return connection.get_server_info()

    def streaming_cursor(self, connection):
        return connection.cursor(buffered=False)

    def ping(self, connection):
        connection.ping(reconnect=False)

    def select_schema(self, connection, name):
        connection.cmd_init_db(name)

    def in_transaction(self, connection):
        return connection.in_transaction

    def change_user(self, connection, user, password, database):
        connection.cmd_change_user(username=user, password=password, database=database)

    def reset(self, connection):
        connection.cmd_reset_connection()

    def pool(self, size):
        from mysql.connector.pooling import MySQLConnectionPool

        o = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD, "database": DATABASE}
        pool = MySQLConnectionPool(pool_name=f"conform{PORT}", pool_size=size, pool_reset_session=True, **self.options(o))
        return pool.get_connection

    def statement_timeout(self):
        return self.connect(read_timeout=2)


class MariaDb(Adapter):
    prepared = True

    def options(self, o):
        options = {key: o[key] for key in ("host", "port", "user", "password", "database")}
        options["autocommit"] = o.get("autocommit", True)
        options["local_infile"] = bool(o.get("local_infile"))
        if o.get("multi"):
            options["client_flag"] = 1 << 16
        if o.get("charset", "utf8mb4") != "utf8mb4":
            raise Skip("the driver speaks utf8mb4 only")
        if o.get("tls"):
            options.update(ssl_ca=CA, ssl_verify_cert=True)
        if o.get("compress"):
            options["compress"] = True
        if o.get("read_timeout"):
            options["read_timeout"] = o["read_timeout"]
        return options

    def open(self, o):
        import mariadb

        return mariadb.connect(**self.options(o))

    def prepared_cursor(self, connection):
        return connection.cursor(binary=True)

    def stepping_cursor(self, connection):
        import mariadb

        return connection.cursor(cursor_type=mariadb.constants.CURSOR.READ_ONLY, prefetch_size=7, binary=True, buffered=False)

    def thread_id(self, connection):
        return connection.connection_id

    def server_info(self, connection):
        return connection.server_info

    def streaming_cursor(self, connection):
        return connection.cursor(buffered=False)

    def ping(self, connection):
        connection.ping()

    def select_schema(self, connection, name):
        connection.select_db(name)

    def in_transaction(self, connection):
        return None

    def change_user(self, connection, user, password, database):
        connection.change_user(user, password, database)

    def reset(self, connection):
        connection.reset()

    def pool(self, size):
        import mariadb

        o = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD, "database": DATABASE}
        pool = mariadb.ConnectionPool(pool_name=f"conform{PORT}", pool_size=size, pool_reset_connection=True, **self.options(o))
        return pool.get_connection

    def statement_timeout(self):
        return self.connect(read_timeout=2)


ADAPTERS = {
    "pymysql": PyMysql,
    "mysqlclient": MysqlClient,
    "mysql-connector-python": lambda: MysqlConnector(pure=True),
    "mysql-connector-python-c": lambda: MysqlConnector(pure=False),
    "mariadb-connector-python": MariaDb,
}
