# SPDX-License-Identifier: Apache-2.0
"""Where a row is played: starts its servers, and sees that each leaves nothing behind."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from textwrap import indent
from typing import TYPE_CHECKING, TypeVar

from tests.faults import leaks
from tests.faults.client import TIMEOUT_S, Client
from tests.faults.figures import Figure, equal, none
from tests.faults.requests import Shot, get, post, predict
from tests.faults.served import Served
from tests.faults.subjects import SERVEKIT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tests.faults.ledger import Line
    from tests.faults.subjects import Subject

MODELS = Path(__file__).parent / "models"
HANG_S = 30.0  #: a shorter time says more about the machine than about the server
LARGE = b"x" * 200_000  #: goes by shared memory
T = TypeVar("T")


class NotHere(Exception):
    """The row needs a program that this machine lacks; the message says which."""


class Stage:
    """Gives one row its servers and its counts."""

    def __init__(
        self, *, is_short: bool, say: Callable[[str], object], subject: Subject = SERVEKIT
    ) -> None:
        """Be empty. *say* shows progress; *subject* is what is harmed."""
        self.subject = subject
        self.is_short = is_short
        self.say = say
        self._directory = Path(mkdtemp(prefix="faults-"))
        self._servers = 0
        self._leaks: list[str] = []
        self._statuses: set[int] = set()
        self.last_words: list[str] = []  #: of the servers' logs, to explain what went wrong

    def count(self, full: T, short: T) -> T:
        """Return how many, or how long: less in the short version."""
        return short if self.is_short else full

    def bound(self, limit: float, unit: str = "s") -> float:
        """Return *limit*, a time; ten times as much in the short version, and 30 s at least.

        That one shares the machine with other tests, so it can tell a hang and no more.
        """
        return self.count(limit, max(10 * limit, HANG_S * (1000 if unit == "ms" else 1)))

    def path(self, name: str) -> Path:
        """Return a path of its own for files of the row."""
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def server(
        self,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        warm_up: Callable[[Served], object] | None = None,
        tracer: Sequence[str] = (),
        sick: Collection[str] = (),
    ) -> Iterator[Served]:
        """Start a server and, once the row is done with it, count what it holds and leaves.

        :param warm_up: makes it hold what a server in use holds; by default each model is asked.
        :param sick: models whose workers come and go, since they cannot load: not counted.
        """
        self._servers += 1
        shared = leaks.shared_memory()
        directory = self._directory / str(self._servers)
        server = Served(
            directory, *arguments, environment=environment, tracer=tracer, subject=self.subject
        )
        server.uncounted = {f"worker {name}" for name in sick}
        try:
            server.wait_ready()
            (warm_up or warm)(server)
            before = leaks.settled(server)
            yield server
            if server.popen.poll() is None:
                self._leaks += leaks.grown(server, before)
                self._statuses.add(server.stop())
            self._leaks += leaks.left_behind(server, shared)
            self._leaks += [f"said {line}" for line in server.said.splitlines() if BUG in line]
        finally:
            server.end()
            self.last_words += server.said.splitlines()[-LAST_LINES:]

    def figures(self) -> Iterator[Figure]:
        """Say what the servers of the row have leaked, and how they ended."""
        yield none("processes, descriptors, memfds, temporary files left", self._leaks)
        if self._statuses:
            yield equal("exit status after SIGTERM", sorted(self._statuses), [0])

    def close(self) -> None:
        """Delete the files."""
        shutil.rmtree(self._directory, ignore_errors=True)


LAST_LINES = 12
BUG = "unexpected error"  #: how a front-end logs a mistake of its own


def warm(server: Served) -> None:
    """Ask every route once, so that what is made on first use is there."""
    for path in (server.subject.ping_path, "/metrics", "/api-description"):
        ask(server, Shot(id=path, wire=get(path)))
    for process in server.processes():
        if process.role.startswith("worker "):
            name = process.role.removeprefix("worker ")
            ask(server, predict(name, "warm-up"))
            ask(server, predict(name, "warm-up", {"answer_bytes": len(LARGE)}))
            large = post(f"/{name}/predict", LARGE, "application/octet-stream")
            ask(server, Shot(id="warm-up", wire=large))


def ask(server: Served, shot: Shot, timeout_s: float = TIMEOUT_S) -> Line:
    """Send one request on a fresh connection and return its line."""
    return Client(server.port, 1, timeout_s).run([shot]).lines[0]


def write_model(
    directory: Path, load: str = "pass", *, version: str = "1.0", toml: str = ""
) -> Path:
    """Write a model whose name is the directory's and whose ``load`` does what *load* says."""
    directory.mkdir(parents=True, exist_ok=True)
    head = f'name = "{directory.name}"\nversion = "{version}"\nservice = "service:Model"\n'
    (directory / "model.toml").write_text(head + toml)
    (directory / "service.py").write_text(MODEL.format(load=indent(load, " " * 8)))
    return directory


MODEL = """\
from servekit import Service


class Model(Service):
    def load(self, context):
        self.version = context.version
{load}

    def predict(self, batch):
        return [self.answer(item) for item in batch]

    def answer(self, item):
        return {{"id": item["id"] if isinstance(item, dict) else None, "version": self.version}}
"""
