#!/usr/bin/env python3
"""The driver matrix: every driver's program against a server directly and through Sqluice, and what differs.

`./dev conform` builds and installs what this needs, and calls it. Only the standard library is used here.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
INSTALLED = TARGET / "conform"
OTHER_USER, OTHER_PASSWORD = "conform_other", "other-secret"
# What a driver's program may take in all, directly or through.
PROGRAM_LIMIT_S = 420
READY_LIMIT_S = 40
SERVER_LINES = ["max_allowed_packet=128M", "log_bin_trust_function_creators=ON", "max_binlog_size=32M"]


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def note(text):
    print(f"    {text}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------- drivers and cases


def read_toml(name):
    with open(HERE / name, "rb") as file:
        return tomllib.load(file)


def drivers():
    return read_toml("drivers.toml")["driver"]


def command(driver):
    """The driver's program as a command line; `{conform}` and `{drivers}` stand for folders."""
    return [part.format(conform=INSTALLED, drivers=HERE / "drivers") for part in driver["command"]]


def known_difference(known, driver, case, family):
    for entry in known:
        if entry["case"] == case and entry["driver"] in ("*", driver) and entry.get("server", family) == family:
            return entry["reason"]
    return None


# --------------------------------------------------------------------------------------------------- servers, Sqluice


@contextlib.contextmanager
def servers(family, folder, names):
    """A primary and two replicas, with a schema for each driver and lane, and a second user."""
    init = folder / "init.sql"
    identified = {
        "mariadb": f"VIA mysql_native_password USING PASSWORD('{OTHER_PASSWORD}')",
        "mysql": f"WITH caching_sha2_password BY '{OTHER_PASSWORD}'",
    }[family]
    lines = [f"CREATE USER {OTHER_USER}@'%' IDENTIFIED {identified};", f"GRANT ALL ON `c\\_%`.* TO {OTHER_USER}@'%';"]
    for name in names:
        lines += [f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4;", f"CREATE DATABASE `{name}_other` CHARACTER SET utf8mb4;"]
    init.write_text("\n".join(lines) + "\n")
    program = TARGET / "debug" / "examples" / "cluster"
    process = subprocess.Popen(
        [program, family, init, *SERVER_LINES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"error: the {family} servers did not start: see above.")
        yield json.loads(line)
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def sqluice(binary, place, folder, split):
    """Sqluice in front of the servers; gives its port and that of its metrics."""
    port, admin = free_port(), free_port()
    lines = [
        "[listener.app]",
        f'address = "127.0.0.1:{port}"',
        'cluster = "main"',
        "local_infile = true",
        # All drivers come from one address and fail on purpose.
        "login_delay_after = 0",
        f'split = "{split}"',
        f'tls = {{ cert_file = "{place["certificate"]}", key_file = "{place["key"]}" }}',
        "[admin]",
        f'address = "127.0.0.1:{admin}"',
        "[cluster.main]",
        'kind = "replication"',
        f'monitor = {{ user = "{place["monitor_user"]}", password = "{place["monitor_password"]}" }}',
    ]
    for number, server in enumerate(place["servers"], 1):
        lines.append(f'servers.db{number} = {{ address = "{server["address"]}" }}')
    config = folder / "sqluice.toml"
    config.touch(mode=0o600)
    config.write_text("\n".join(lines) + "\n")
    log = folder / "sqluice.log"
    with open(log, "w") as out:
        process = subprocess.Popen([binary, "run", "--config", config], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + READY_LIMIT_S
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"error: Sqluice did not become ready; its log:\n{log.read_text()[-3000:]}")
            metrics = scrape(admin)
            serving = sum(metrics.get(name, 0) for name in metrics if name.startswith("sqluice_server_serves_reads{"))
            if serving >= len(place["servers"]) - 1 and any(metrics.get(name) for name in metrics if name.startswith("sqluice_cluster_has_primary")):
                break
            time.sleep(0.1)
        yield port, admin, process, log
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def scrape(admin):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=2) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            with contextlib.suppress(ValueError):
                found[name] = float(value)
    return found


# ------------------------------------------------------------------------------------------------------------ running


def schema(driver, lane):
    return f"c_{driver['name'].replace('-', '_').replace('/', '_')}_{lane}"


def run_program(driver, lane, family, place, port, folder, only):
    """Gives {case: line} and how long it took."""
    database = schema(driver, lane)
    scratch = folder / database
    scratch.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "CONFORM_HOST": "127.0.0.1", "CONFORM_PORT": str(port), "CONFORM_USER": place["user"], "CONFORM_PASSWORD": place["password"],
        "CONFORM_DATABASE": database, "CONFORM_OTHER_USER": OTHER_USER, "CONFORM_OTHER_PASSWORD": OTHER_PASSWORD,
        "CONFORM_OTHER_DATABASE": f"{database}_other", "CONFORM_CA": place["ca"], "CONFORM_SCRATCH": str(scratch),
        "CONFORM_FAMILY": family, "CONFORM_CASES": str(HERE / "cases.toml"), "CONFORM_ONLY": ",".join(only),
        "CONFORM_LANE": lane, "CONFORM_NODE_MODULES": str(INSTALLED / "node"),
    }
    started = time.monotonic()
    output, errors = scratch / "out.jsonl", scratch / "err.txt"
    with open(output, "w") as out, open(errors, "w") as err:
        process = subprocess.Popen(command(driver), stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, cwd=scratch, start_new_session=True)
        ended = ""
        try:
            code = process.wait(PROGRAM_LIMIT_S)
            if code != 0:
                ended = f"the program ended with {code}: {errors.read_text(errors='replace')[-600:].strip()}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            ended = f"the program was stopped after {PROGRAM_LIMIT_S} s"
    found = {}
    for line in output.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            parsed = json.loads(line)
            found[parsed["case"]] = parsed
    return found, ended, time.monotonic() - started


def judge(direct, through, known):
    """One word for a pair of lines, and what is to be said of it."""
    if direct is None or direct["status"] == "fail":
        return "broken", f"does not pass directly: {direct['error'] if direct else 'no answer'}"
    if direct["status"] == "skip":
        return "skip", direct["reason"]
    if through is not None and through["status"] == "ok" and through["digest"] == direct["digest"]:
        return "same", ""
    if through is None:
        what = "no answer"
    elif through["status"] == "ok":
        what = "other values: " + difference(direct["seen"], through["seen"])
    else:
        what = through.get("error") or through.get("reason")
    if known:
        return "known", known
    return "differs", what


def difference(direct, through):
    """The place where two texts begin to differ."""
    at = next((index for index, (a, b) in enumerate(zip(direct, through)) if a != b), min(len(direct), len(through)))
    start = max(0, at - 60)
    return f"directly …{direct[start:at + 160]}… through …{through[start:at + 160]}…"


def prime(port, user, password, authority):
    """Logs in by TLS once: some clients without TLS pass caching_sha2_password only where the password is known already."""
    subprocess.run(
        ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{port}", f"-u{user}", f"-p{password}", f"--ssl-ca={authority}", "-eSELECT 1"],
        stdout=subprocess.DEVNULL, timeout=30, check=True,
    )


def matrix(family, chosen, options, folder):
    cases = [case["name"] for case in read_toml("cases.toml")["case"]]
    known = read_toml("known.toml").get("known", [])
    names = [schema(driver, lane) for driver in chosen for lane in ("d", "t")]
    report = {"server": family, "drivers": {}}
    started = time.monotonic()
    with servers(family, folder, names) as place, sqluice(options.sqluice, place, folder, options.split) as (port, admin, process, log):
        say(f"{family}: servers and Sqluice are ready after {time.monotonic() - started:.0f} s")
        primary = int(place["servers"][0]["address"].rpartition(":")[2])
        for user, password in ((place["user"], place["password"]), (OTHER_USER, OTHER_PASSWORD)):
            for side in (primary, port):
                prime(side, user, password, place["ca"])
        jobs = [(driver, lane) for driver in chosen for lane in ("d", "t")]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as executor:
            pending = {
                executor.submit(run_program, driver, lane, family, place, primary if lane == "d" else port, folder, options.case): (driver, lane)
                for driver, lane in sorted(jobs, key=lambda job: -job[0].get("weight", 1))
            }
            outcome = {}
            for future in concurrent.futures.as_completed(pending):
                driver, lane = pending[future]
                outcome[driver["name"], lane] = future.result()
                note(f"{driver['name']} {'through Sqluice' if lane == 't' else 'directly'}: {future.result()[2]:.0f} s")
        report["alive"] = process.poll() is None
        # Nothing may be left behind by clients that are gone: pins, sessions, connections in use.
        deadline = time.monotonic() + 10
        while True:
            metrics = scrape(admin)
            left = {name: value for name, value in metrics.items() if value and name.startswith(("sqluice_pinned_sessions{", "sqluice_sessions"))}
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        report["left"] = left
        report["log"] = [line for line in log.read_text(errors="replace").splitlines() if " panick" in line or "ERROR" in line][:20]
    for driver in chosen:
        direct, direct_end, direct_s = outcome[driver["name"], "d"]
        through, through_end, through_s = outcome[driver["name"], "t"]
        lines = {}
        for case in cases:
            if options.case and case not in options.case:
                continue
            reason = known_difference(known, driver["name"], case, family)
            word, text = judge(direct.get(case), through.get(case), reason)
            lines[case] = {"result": word, "text": text, "direct": direct.get(case), "through": through.get(case)}
        report["drivers"][driver["name"]] = {
            "cases": lines, "ended": {"direct": direct_end, "through": through_end}, "seconds": [round(direct_s, 1), round(through_s, 1)]
        }
    report["seconds"] = round(time.monotonic() - started, 1)
    return report


# ------------------------------------------------------------------------------------------------------------- output

MARKS = {"same": "yes", "skip": "–", "known": "known", "differs": "NO", "broken": "?", "": ""}


def show(report):
    bad = 0
    for name, driver in report["drivers"].items():
        counted = {}
        for case in driver["cases"].values():
            counted[case["result"]] = counted.get(case["result"], 0) + 1
        words = ", ".join(f"{count} {word}" for word, count in sorted(counted.items()))
        print(f"{report['server']:8} {name:26} {words}  ({driver['seconds'][0]} s, {driver['seconds'][1]} s)")
        for lane, text in driver["ended"].items():
            if text:
                print(f"         {lane}: {text}")
                bad += 1
        silent = all(line["direct"] is None for line in driver["cases"].values())
        for case, line in driver["cases"].items():
            if silent or line["result"] in ("differs", "broken"):
                bad += 1
            if silent:
                continue
            if line["result"] in ("differs", "broken"):
                print(f"         {line['result'].upper()} {case}: {line['text'][:600]}")
            elif line["result"] == "known":
                print(f"         known {case}: {line['text']}")
    if not report["alive"]:
        print(f"{report['server']:8} Sqluice did not live to the end")
        bad += 1
    if report["left"]:
        print(f"{report['server']:8} left behind in Sqluice: {report['left']}")
        bad += 1
    for line in report["log"]:
        print(f"{report['server']:8} log: {line}")
        bad += 1
    return bad


def table(reports):
    cases = read_toml("cases.toml")["case"]
    lines = []
    for report in reports:
        names = list(report["drivers"])
        server = {"mariadb": "MariaDB", "mysql": "MySQL"}[report["server"]]
        lines += [f"### With {server} servers", ""]
        lines.append("| case | " + " | ".join(names) + " |")
        lines.append("|---|" + "---|" * len(names))
        for case in cases:
            marks = [MARKS[report["drivers"][name]["cases"].get(case["name"], {}).get("result", "")] for name in names]
            lines.append(f"| `{case['name']}` | " + " | ".join(marks) + " |")
        lines.append("")
        skipped = {}
        for name in names:
            for case, line in report["drivers"][name]["cases"].items():
                if line["result"] in ("skip", "known"):
                    skipped.setdefault((line["text"], line["result"]), []).append(f"{name} `{case}`")
        for (text, word), places in skipped.items():
            lines.append(f"- {'known difference' if word == 'known' else 'not applicable'}: {text} ({', '.join(places)})")
        lines.append("")
    return "\n".join(lines)


def update_page(reports):
    page = ROOT / "docs" / "reference" / "compatibility.md"
    text = page.read_text()
    begin, end = "<!-- conform: begin -->", "<!-- conform: end -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    page.write_text(f"{head}{begin}\n\n{table(reports)}\n{end}{tail}")
    note(f"wrote the table in {page.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", action="append", choices=["mariadb", "mysql"], help="the servers' family; may be given twice")
    parser.add_argument("--driver", action="append", help="only this driver; may be given several times")
    parser.add_argument("--skip-driver", action="append", default=[], help="leave this driver out")
    parser.add_argument("--case", action="append", default=[], help="only this case")
    parser.add_argument("--jobs", type=int, default=max(3, (os.cpu_count() or 2) + 1), help="programs at a time")
    parser.add_argument("--update", action="store_true", help="write the table of docs/reference/compatibility.md")
    parser.add_argument("--split", default="auto", choices=["auto", "primary"], help="the listener's split")
    parser.add_argument("--sqluice", default=TARGET / "debug" / "sqluice", help="the program to test")
    parser.add_argument("--keep", action="store_true", help="keep the programs' output")
    options = parser.parse_args()
    everything = drivers()
    names = [driver["name"] for driver in everything]
    for name in (options.driver or []) + options.skip_driver:
        if name not in names:
            parser.error(f"there is no driver {name!r}; there are {', '.join(names)}")
    chosen = [d for d in everything if (not options.driver or d["name"] in options.driver) and d["name"] not in options.skip_driver]
    for name in options.skip_driver:
        note(f"driver {name} is left out, as --skip-driver says")
    folder = Path(tempfile.mkdtemp(prefix="sqluice-conform-"))
    reports = []
    try:
        for family in options.server or ["mariadb"]:
            place = folder / family
            place.mkdir()
            reports.append(matrix(family, chosen, options, place))
    finally:
        if options.keep:
            note(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    bad = sum(show(report) for report in reports)
    INSTALLED.mkdir(parents=True, exist_ok=True)
    (INSTALLED / "drivers.json").write_text(json.dumps(reports, indent=1))
    if options.update and not options.case and not options.driver:
        update_page(reports)
    total = sum(len(driver["cases"]) for report in reports for driver in report["drivers"].values())
    print(f"conform: {total} cases, {bad} to look at, {sum(report['seconds'] for report in reports):.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
