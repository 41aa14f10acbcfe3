"""What all Python programs of the driver matrix share: the environment, values as text, one line of JSON for each case."""

import datetime
import decimal
import hashlib
import json
import os
import re
import signal
import sys
import time
import traceback

HOST = os.environ["CONFORM_HOST"]
PORT = int(os.environ["CONFORM_PORT"])
USER = os.environ["CONFORM_USER"]
PASSWORD = os.environ["CONFORM_PASSWORD"]
DATABASE = os.environ["CONFORM_DATABASE"]
OTHER_USER = os.environ["CONFORM_OTHER_USER"]
OTHER_PASSWORD = os.environ["CONFORM_OTHER_PASSWORD"]
OTHER_DATABASE = os.environ["CONFORM_OTHER_DATABASE"]
CA = os.environ["CONFORM_CA"]
SCRATCH = os.environ["CONFORM_SCRATCH"]
FAMILY = os.environ["CONFORM_FAMILY"]
ONLY = [name for name in os.environ.get("CONFORM_ONLY", "").split(",") if name]
# Longest that one case may take.
CASE_LIMIT_S = 60
ALL_BYTES = bytes(range(256))


class Skip(Exception):
    """The driver has no such thing; the text says why."""


def canonical(value):
    """A value as something that JSON can hold and that two runs can be compared by."""
    if value is None or isinstance(value, (bool, int, str)):
        if isinstance(value, str) and len(value) > 300:
            return f"text of {len(value)}: {hashlib.sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value)
        if len(value) > 300:
            return f"bytes of {len(value)}: {hashlib.sha256(value).hexdigest()[:16]}"
        return "0x" + value.hex()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return f"decimal {value}"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)):
        return f"{type(value).__name__} {value}"
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(str(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    return f"{type(value).__name__} {value}"


def scrubbed(value):
    """Names that differ between the two runs of a driver are no difference."""
    if isinstance(value, str):
        value = value.replace(DATABASE, "DATABASE").replace(OTHER_DATABASE, "OTHER")
        # As a word of its own: its digits may stand in other values.
        return re.sub(rf"\b{PORT}\b", "PORT", value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {key: scrubbed(item) for key, item in value.items()}
    return value


def emit(case, status, started, **more):
    line = {"case": case, "status": status, "ms": round((time.monotonic() - started) * 1000), **more}
    print(json.dumps(line, ensure_ascii=True), flush=True)


def run(case, function):
    """Runs one case, and prints what came of it. A function gives what it saw, and asserts what it knows."""
    if ONLY and case not in ONLY:
        return
    started = time.monotonic()
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(CASE_LIMIT_S)
    try:
        seen = json.dumps(scrubbed(canonical(function())), ensure_ascii=True)
        digest = hashlib.sha256(seen.encode()).hexdigest()[:16]
        emit(case, "ok", started, digest=digest, seen=seen[:4000])
    except Skip as skip:
        emit(case, "skip", started, reason=str(skip))
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        where = "; ".join(
            f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__) if "conform" in frame.filename
        )
        emit(case, "fail", started, error=f"{type(error).__name__}: {error} [{where}]"[:2000])
    finally:
        signal.alarm(0)


def give_up(_signal, _frame):
    raise TimeoutError(f"no end within {CASE_LIMIT_S} s")


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}"[:1500])


def main(cases):
    """All cases of the list in its order; one that the program lacks is a fault of the program."""
    with open(os.environ["CONFORM_CASES"], "rb") as file:
        import tomllib

        names = [case["name"] for case in tomllib.load(file)["case"]]
    for name in names:
        if name not in cases:
            emit(name, "fail", time.monotonic(), error="the driver's program has no such case")
        else:
            run(name, cases[name])
    unknown = sorted(set(cases) - set(names))
    if unknown:
        print(f"cases that cases.toml does not have: {unknown}", file=sys.stderr)
        sys.exit(2)
