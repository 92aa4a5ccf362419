# SPDX-License-Identifier: Apache-2.0
"""The faults that a client or a service can make, and how the server must answer each."""

from __future__ import annotations

import json
from typing import NamedTuple

from tests.faults.requests import get, post

DEATH_S = 0.1  #: from the death of a worker to the 503 of its batch
TIMEOUT_S = 0.5  #: of a prediction
STUCK = "stuck"  #: the model whose predictions time out
LATE_S = 0.25  #: how much later a 504 may come


class Fault(NamedTuple):
    """One row: what is sent, what must come back, and how soon."""

    name: str
    wire: bytes
    statuses: frozenset[int]
    within_s: float
    model: str = "zoo"
    is_fatal: bool = False  #: the worker must be replaced; else it must stay


def does(text: str, *statuses: int, model: str = "zoo", within_s: float = 0.5) -> Fault:
    """Let the service do what *text* says."""
    wire = post(f"/{model}/predict", json.dumps(text).encode())
    return Fault(text, wire, frozenset(statuses), within_s, model)


def kills(number: int, text: str, status: int = 503) -> Fault:
    """Let the service kill its worker; each such model has its own record of failures."""
    fault = does(text, status, model=f"zoo{number}", within_s=DEATH_S)
    return fault._replace(is_fatal=True)


def hangs(text: str) -> Fault:
    """Let the service hang until it is killed."""
    fault = does(text, 504, model=STUCK, within_s=TIMEOUT_S + LATE_S)
    return fault._replace(is_fatal=True)


def body(
    name: str, sent: bytes, *statuses: int, of: str = "application/json", within_s: float = 0.25
) -> Fault:
    """Send a body that no service should see."""
    return Fault(name, post("/zoo/predict", sent, of), frozenset(statuses), within_s)


def wire(name: str, sent: bytes, *statuses: int) -> Fault:
    """Send a request that no worker should see."""
    return Fault(name, sent, frozenset(statuses), 0.1)


RAISES = [
    does(text, status)
    for text, status in {
        "KeyboardInterrupt": 500,
        "GeneratorExit": 500,
        "RecursionError": 500,
        "recurse": 500,
        "MemoryError": 507,
        "hoard": 507,
        "ZeroDivisionError": 500,
        "Unshowable": 500,
        "InputError": 422,
        "ClientError": 400,
    }.items()
]
RETURNS = [
    does(text, 500)
    for text in (
        "none", "nothing", "too many", "a mapping", "a text", "a tuple", "a set", "generator",
        "object", "nan", "inf", "cyclic", "deep", "large",
    )
]  # fmt: skip
ODD = [
    does(text, 200, within_s=2.0)
    for text in (
        "fork", "pool", "flood", "sigterm", "sigint", "stdout None", "chdir", "umask",
        "ignore SIGTERM", "binary on stdout", "forged log lines",
    )
]  # fmt: skip
KILLS = [
    *(
        kills(number, text)
        for number, text in enumerate(
            ("exit 0", "exit 3", "segfault", "abort", "kill", "close descriptors")
        )
    ),
    kills(6, "sys.exit", 500),
]
HANGS = [hangs(text) for text in ("spin", "spin in C", "stop", "count in C", "spin, deaf", "sleep")]
MSGPACK = "application/msgpack"
BODIES = [
    body("no JSON", b"{nonsense", 400),
    body("empty", b"", 400),
    body("two values", b"1 2", 400),
    body("NaN", b"[NaN]", 400),
    body("1e999", b"1e999", 400),
    body("invalid UTF-8", b'"\xff"', 400),
    body("UTF-16", '"a"'.encode("utf-16"), 400),
    body("byte order mark", b'\xef\xbb\xbf"a"', 400),
    body("100,000 levels", b"[" * 100_000, 400),
    body("1 MB of levels", b'{"a":' * 200_000, 400),
    body("msgpack, reserved", b"\xc1", 400, of=MSGPACK),
    body("msgpack, 4 G items declared", b"\xdd\xff\xff\xff\xff", 400, of=MSGPACK),
    body("msgpack, 4 GB declared", b"\xc6\xff\xff\xff\xff", 400, of=MSGPACK),
    body("msgpack, 5,000 levels", b"\x91" * 5000, 400, of=MSGPACK),
    body("msgpack, unknown extension", b"\xc7\x03\x05abc", 400, of=MSGPACK),
    body("pickle", b"cos\nsystem\n(S'true'\ntR.", 415, of="application/x-pickle"),
    body("unknown type", b"1", 415, of="application/x-nothing"),
    body("latin-1", b'"\xe9"', 415, of="application/json; charset=latin-1"),
    Fault(
        "zstd",
        post("/zoo/predict", b"\x28\xb5\x2f\xfd", Content_Encoding="zstd"),
        frozenset({415}),
        0.25,
    ),
    Fault("unknown model", post("/nobody/predict", b"{}"), frozenset({404}), 0.1),
    Fault(
        "path out of the model", post("/..%2f..%2fetc/predict", b"{}"), frozenset({400, 404}), 0.1
    ),
    Fault("wrong method", get("/zoo/predict"), frozenset({405}), 0.1),
]
ALL = [*BODIES, *RAISES, *RETURNS, *ODD, *KILLS, *HANGS]
