# SPDX-License-Identifier: Apache-2.0
"""One ``servekit start`` of a trivial model on a warm cache: time, CPU and memory."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

__all__ = ["StartSample", "make_model", "measure"]

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
IDLE_S: Final = 1.0  #: between the first answer and the look at the memory
ROLES: Final = {"frontend": "front-end", "servekit.worker": "worker", "servekit.cli": "supervisor"}
TOML: Final = 'name = "trivial"\nservice = "service:Trivial"\n'
SERVICE: Final = """
from servekit import Service

class Trivial(Service):
    def predict(self, batch):
        return batch
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSample:
    """One start, from exec of the command."""

    serving_s: float  #: to the line with the URL
    answer_s: float  #: to the first 200
    cpu_s: float  #: of the whole tree, until the first 200
    pss_bytes: dict[str, int]  #: by role; the arbiter and the front-ends count together


def make_model(directory: Path) -> Path:
    """Build the archive of the trivial model."""
    from servekit_archiver import build_archive

    source = directory / "trivial"
    source.mkdir()
    (source / "model.toml").write_text(TOML)
    (source / "service.py").write_text(SERVICE)
    build_archive(source, directory / "trivial.mar")
    return directory / "trivial.mar"


def measure(archive: Path) -> StartSample:
    """Start, ask once, look, stop."""
    began = monotonic()
    command = [sys.executable, "-P", "-m", "servekit.cli", "start", str(archive), "--port", "0"]
    flags = ["--cache-dir", str(archive.parent / "cache"), "--log-format", "json"]
    server = subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        if not line:
            raise SystemExit("servekit ended before it served")
        serving_s = monotonic() - began
        _predict(int(json.loads(line)["url"].rpartition(":")[2]))
        answer_s = monotonic() - began
        cpu_s = sum(_ticks(pid) for pid in _tree(server.pid)) / TICKS_PER_S
        sleep(IDLE_S)
        pss_bytes = _memory(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    return StartSample(serving_s=serving_s, answer_s=answer_s, cpu_s=cpu_s, pss_bytes=pss_bytes)


def _predict(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/trivial/predict", "1", {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if (response.status, json.loads(answer)) != (200, {"prediction": 1}):
        raise SystemExit(f"wrong answer: {response.status} {answer!r}")


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _tree(int(child))


def _ticks(pid: int) -> int:
    """Return user and system time, that of reaped children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def _memory(root: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for pid in _tree(root):
        command = Path(f"/proc/{pid}/cmdline").read_text()
        role = next((name for word, name in ROLES.items() if word in command), "other")
        found[role] = found.get(role, 0) + _pss(pid)
    return found


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
