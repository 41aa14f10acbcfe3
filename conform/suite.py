#!/usr/bin/env python3
"""MariaDB's own test files through Sqluice: each runs twice directly and once through, and must print the same.

`./dev suite` installs what this needs, and calls it. Only the standard library is used here. The files are those of
Debian's package mariadb-test; none of them is copied.
"""

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
FILES = Path("/usr/share/mysql/mysql-test")
PLUGINS = Path("/usr/lib/mysql/plugin")
# How mysqltest sends statements.
PROTOCOLS = {"text": [], "ps": ["--ps-protocol"], "cursor": ["--cursor-protocol"]}
# A file that takes longer is left out.
FILE_LIMIT_S = 30
STATEMENT_LIMIT_S = 20
READY_LIMIT_S = 40
MONITOR = ("sqluice", "suite-Monitor-1")
OWN_USERS = f"'root', '{MONITOR[0]}', 'mariadb.sys'"
# They restart the server, need replication or a debug build, or wait for a lost connection.
LEFT_OUT = re.compile(
    r"shutdown|restart_mysqld|start_mysqld|restart\.inc|wait_until_disconnected|\.expect|kill_mysqld|have_debug|"
    r"mysqld_safe|master-slave|rpl_|maria_empty_logs",
    re.IGNORECASE,
)
SERVER = """[mysqld]
user=root
bind-address=127.0.0.1
character-set-server=latin1
collation-server=latin1_swedish_ci
default-storage-engine=MyISAM
sql-mode=STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION
log-bin
binlog-format=MIXED
log-bin-trust-function-creators=1
server-id=1
innodb_flush_log_at_trx_commit=0
secure-file-priv=
performance_schema=OFF
key_buffer_size=1M
sort_buffer_size=256K
max_heap_table_size=1M
local-infile
"""


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class TestFile:
    """A file of a suite, such as `sys_vars/max_connections_basic`; files of `main` have no suite in their names."""

    def __init__(self, path):
        self.path = path
        self.suite = path.parent.parent if path.parent.name == "t" else path.parent
        suite = "" if self.suite == FILES / "main" else f"{self.suite.relative_to(FILES / 'suite')}/"
        self.name = f"{suite}{path.stem}"

    def cannot_run(self):
        text = self.path.read_text(errors="replace")
        return LEFT_OUT.search(text) is not None


def files_of(suite):
    folder = FILES / "main" if suite == "main" else FILES / "suite" / suite
    if not folder.is_dir():
        sys.exit(f"error: no suite {suite} in {FILES}/suite")
    return [TestFile(path) for path in sorted((folder / "t" if (folder / "t").is_dir() else folder).glob("*.test"))]


class Stand:
    """A server and Sqluice before it, in a folder of their own; both can be begun anew."""

    def __init__(self, folder, sqluice, protocol):
        self.folder, self.sqluice, self.protocol = folder, sqluice, PROTOCOLS[protocol]
        self.server_port, self.front_port = free_port(), free_port()
        self.vardir = folder / "var"
        self.processes = []
        for name in ("tmp", "var/tmp"):
            (folder / name).mkdir(parents=True)
        places = f"datadir={folder}/data\nsocket={folder}/s\ntmpdir={folder}/tmp\nlog-error={folder}/log\n"
        (folder / "my.cnf").write_text(f"{SERVER}{places}port={self.server_port}\n")
        config = folder / "sqluice.toml"
        config.write_text(
            '[cluster.main]\nkind = "standalone"\n'
            # Heartbeats count among the server's transactions.
            f'monitor = {{ user = "{MONITOR[0]}", password = "{MONITOR[1]}", heartbeat = "off" }}\n'
            f'servers.db1 = {{ address = "127.0.0.1:{self.server_port}" }}\n'
            f'[listener.app]\naddress = "127.0.0.1:{self.front_port}"\ncluster = "main"\n'
            '[listener.app.tls]\nmode = "off"\n'
        )
        config.chmod(0o600)
        options = [f"--defaults-file={folder}/my.cnf", "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(["mariadb-install-db", *options], check=True, capture_output=True)
        shutil.move(folder / "data", folder / "fresh")
        self.begin()

    def begin(self):
        """Ends both, and starts them with a fresh datadir."""
        self.end()
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        shutil.copytree(self.folder / "fresh", self.folder / "data")
        self.start(["mariadbd", f"--defaults-file={self.folder}/my.cnf"])
        self.wait(lambda: self.by_socket("SELECT 1").returncode == 0, "the server")
        self.by_socket(
            "CREATE DATABASE mtr; CREATE TABLE mtr.suppressed (pattern VARCHAR(255)) ENGINE=MyISAM;"
            "CREATE PROCEDURE mtr.add_suppression(pattern VARCHAR(255)) INSERT INTO mtr.suppressed VALUES (pattern);"
            "GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;"
            f"GRANT ALL ON *.* TO {MONITOR[0]}@'127.0.0.1' IDENTIFIED BY '{MONITOR[1]}';"
            "DELETE FROM mysql.global_priv WHERE user = ''; FLUSH PRIVILEGES"
        )
        self.start([self.sqluice, "run", "--config", "sqluice.toml"])
        self.wait(lambda: self.sql("SELECT 1", self.front_port) == "1\n", "Sqluice")
        self.globals, self.accounts = self.read_globals(), self.read_accounts()

    def start(self, command):
        log = open(self.folder / f"{Path(command[0]).name}.out", "ab")
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)

    def end(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.processes = []

    def wait(self, is_ready, what):
        deadline = time.monotonic() + READY_LIMIT_S
        while not is_ready():
            if time.monotonic() > deadline:
                sys.exit(f"error: {what} was not ready within {READY_LIMIT_S} s; see {self.folder}")
            time.sleep(0.2)

    def by_socket(self, statements):
        command = ["mariadb", "--no-defaults", f"--socket={self.folder}/s", "-uroot", "-e", statements]
        return subprocess.run(command, capture_output=True)

    def sql(self, statements, port=None):
        """What they give, without names; errors are passed over."""
        login = ["--no-defaults", "-h127.0.0.1", f"-P{port or self.server_port}", "-uroot"]
        command = ["mariadb", *login, "-f", "-N", "-e", statements]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STATEMENT_LIMIT_S)
        return run.stdout

    def read_globals(self):
        lines = self.sql("SHOW GLOBAL VARIABLES").splitlines()
        pairs = (line.split("\t", 1) for line in lines if "\t" in line)
        return {name: value for name, value in pairs if not name.startswith(("gtid_", "timestamp"))}

    def read_accounts(self):
        accounts = f"SELECT user, host, priv FROM mysql.global_priv WHERE user IN ({OWN_USERS}) ORDER BY 1, 2"
        return self.sql(f"{accounts}; SHOW CREATE PROCEDURE mtr.add_suppression")

    def tidy(self):
        """Takes away what a file has left; begins anew where that does not help."""
        try:
            enters = self.sql("CREATE DATABASE IF NOT EXISTS test; USE test; SELECT 1", self.front_port) == "1\n"
            if enters and self.read_accounts() == self.accounts:
                self.drop_all()
                return
        except subprocess.TimeoutExpired:
            pass
        self.begin()
        self.drop_all()

    def drop_all(self):
        kept = "'mysql', 'information_schema', 'performance_schema', 'sys', 'mtr', 'sqluice'"
        schemas = f"SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ({kept})"
        for name in self.sql(schemas).splitlines():
            self.sql(f"SET foreign_key_checks = 0; DROP DATABASE `{name}`")
        self.sql("CREATE DATABASE test")
        accounts = "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE is_role = 'N'"
        for account in self.sql(f"{accounts} AND user NOT IN ({OWN_USERS})").splitlines():
            self.sql(f"DROP USER {account}")
        for role in self.sql("SELECT user FROM mysql.user WHERE is_role = 'Y'").splitlines():
            self.sql(f"DROP ROLE `{role}`")
        for name, value in self.read_globals().items():
            before = self.globals.get(name, value)
            if value != before:
                self.sql(f"SET GLOBAL {name} = '{before}'; SET GLOBAL {name} = {before or 'NULL'}")
        # Sqluice reads all of them again.
        self.sql("SET GLOBAL sql_mode = @@global.sql_mode", self.front_port)
        self.sql("FLUSH STATUS")

    def run(self, file, port):
        """What the file prints over this port, with its end; `None` if it takes too long."""
        self.tidy()
        scratch = self.vardir / "tmp"
        shutil.rmtree(scratch)
        scratch.mkdir()
        login = f"--no-defaults -h127.0.0.1 -P{port} -uroot"
        programs = {"MYSQL": f"mariadb {login} --default-character-set=latin1", "MYSQL_TEST": f"mysqltest {login}"}
        programs |= {f"{plugin.stem.upper()}_SO": plugin.stem for plugin in PLUGINS.glob("*.so")}
        for tool in ("admin", "dump", "show", "check", "import", "slap"):
            programs["MYSQLADMIN" if tool == "admin" else f"MYSQL_{tool.upper()}"] = f"mariadb-{tool} {login}"
        environment = os.environ | programs | {
            "MYSQLTEST_VARDIR": str(self.vardir), "MYSQL_TMP_DIR": str(scratch), "MYSQL_TEST_DIR": str(FILES),
            "MASTER_MYPORT": str(port), "MASTER_MYSOCK": f"{self.folder}/s", "USE_RUNNING_SERVER": "1",
            "MYSQLD_DATADIR": f"{self.folder}/data", "MYSQL_SHAREDIR": "/usr/share/mysql", "EXE_MYSQL": "mariadb",
            "MYSQL_CHARSETSDIR": "/usr/share/mysql/charsets", "MYSQL_BINLOG": "mariadb-binlog --no-defaults",
            "MTR_SUITE_DIR": str(file.suite), "TZ": "GMT-3", "LC_ALL": "C",
        }
        command = ["mysqltest", *login.split(), "-Dtest", "--silent", "--protocol=tcp", "--max-connect-retries=20",
                   f"--logdir={scratch}", f"--tmpdir={scratch}", f"--basedir={FILES}/", f"--suite-dir={file.suite}/",
                   f"--test-file={file.path}", *self.protocol]
        try:
            run = subprocess.run(command, cwd=FILES, env=environment, capture_output=True, timeout=FILE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.begin()
            return None
        printed, complained = (text.decode(errors="replace") for text in (run.stdout, run.stderr))
        return self.plain(f"{printed}\n--- end {run.returncode} ---\n{complained}")

    def plain(self, text):
        """The text without ports, times, and what only tells how a failure looked."""
        for port in (self.server_port, self.front_port):
            text = text.replace(str(port), "PORT").replace("MASTER_MYPORT", "PORT")
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "TIME", text)
        text = re.sub(r"(status: \d+), errno: \d+", r"\1", text)
        return re.sub(r"(?s)\n(More results from queries|The result from queries just) before.*", "\n", text)


def judge(stand, file, seen):
    """One word about the file, and whether it passes directly."""
    if file.cannot_run():
        return "left out", False
    direct = stand.run(file, stand.server_port)
    if direct is None:
        return "takes too long", False
    passes = "--- end 0 ---" in direct
    if not passes and len(direct) < 400:
        return "cannot run here", False
    through = stand.run(file, stand.front_port)
    if through == direct:
        return "same", passes
    if stand.run(file, stand.server_port) != direct:
        return "differs directly", passes
    flat = file.name.replace("/", ".")
    (seen / f"{flat}.direct").write_text(direct)
    (seen / f"{flat}.through").write_text(through or "it took too long\n")
    return "differs", passes


def judge_all(stand, files, known, seen):
    """The names of those that differ for no known reason."""
    counts, passed, passed_through, unknown = {}, 0, 0, []
    for number, file in enumerate(files, 1):
        word, passes = judge(stand, file, seen)
        counts[word] = counts.get(word, 0) + 1
        passed += passes and word in ("same", "differs")
        passed_through += passes and word == "same"
        reason = known.get(file.name, "") if word == "differs" else ""
        if word == "differs" and not reason:
            unknown.append(file.name)
        print(f"{number}/{len(files)} {file.name}: {word}{', known: ' * bool(reason)}{reason}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    print(f"{passed} pass directly, {passed_through} of them print the same through Sqluice")
    return unknown


def parse_arguments():
    arguments = argparse.ArgumentParser(prog="./dev suite", description=__doc__.splitlines()[0])
    add = arguments.add_argument
    add("files", nargs="*", metavar="FILE", help="names without .test (default: all of the suites)")
    add("--suite", action="append", metavar="NAME", help="main (the default), sys_vars, compat/oracle …; may be repeated")
    add("--protocol", choices=PROTOCOLS, default="text", help="how statements are sent (default: text)")
    add("--part", default="1/1", metavar="N/OF", help="every OF-th file, from the N-th: to share the work")
    add("--sqluice", default=TARGET / "release/sqluice", help="the program")
    return arguments.parse_args()


def main():
    chosen = parse_arguments()
    part, parts = map(int, chosen.part.split("/"))
    files = [file for suite in chosen.suite or ["main"] for file in files_of(suite)]
    if missing := set(chosen.files) - {file.path.stem for file in files}:
        sys.exit(f"error: no file {' '.join(sorted(missing))} in {' '.join(chosen.suite or ['main'])}")
    files = [file for file in files if not chosen.files or file.path.stem in chosen.files][part - 1 :: parts]
    with open(HERE / "suite.toml", "rb") as file:
        known = {name: entry["reason"] for entry in tomllib.load(file)["known"] for name in entry["files"]}
    seen = TARGET / "conform" / "suite" / chosen.protocol
    seen.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sqluice-suite-") as folder:
        stand = Stand(Path(folder), str(Path(chosen.sqluice).resolve()), chosen.protocol)
        try:
            unknown = judge_all(stand, files, known, seen)
        finally:
            stand.end()
    if unknown:
        sys.exit(f"error: {' '.join(unknown)}: compare the two files of each in {seen}")


if __name__ == "__main__":
    main()
