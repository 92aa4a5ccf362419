# SPDX-License-Identifier: Apache-2.0
"""What harm is done to: servekit, and a peer beside it where the same harm makes sense."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tests.benchmarks import environments
from tests.benchmarks.answers import answers_get
from tests.benchmarks.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVEKIT_PROGRAM = Path(sys.executable).with_name("servekit")
MOSEC_PROGRAM = Path(__file__).parent / "peers" / "mosec_models.py"
URL = re.compile(r" at https?://127\.0\.0\.1:(\d+)")
WORKER = re.compile(r"\0servekit\.worker\0([^\0/]+)/")


class Command(NamedTuple):
    """How a server is started."""

    argv: list[str]
    environment: dict[str, str]
    port: int = 0  #: 0: it says so when it serves


class Subject(Protocol):
    """One kind of server. Settings are those of ``servekit start``, as ``--name=value``."""

    name: str
    ping_path: str
    cannot: Mapping[str, str]  #: rows that it cannot go through, and why
    short: frozenset[str]  #: rows that are played with small counts: each turn takes its whole wait

    def prepare(self) -> str:
        """Install it, if it is not yet; return its version."""

    def command(self, directory: Path, settings: Sequence[str]) -> Command:
        """Return how it is started; *directory* is for its files."""

    def port(self, command: Command, said: str) -> int:
        """Return the port once it serves, else 0; *said* is its output so far."""

    def role(self, command_line: str, *, is_root: bool, is_child: bool) -> str:
        """Return supervisor, arbiter, front-end, ``worker MODEL`` or other.

        :param is_child: of the root.
        """


class Servekit:
    """``servekit start``, as it is installed beside this program."""

    name = "servekit"
    ping_path = "/ping"
    cannot: Mapping[str, str] = {}
    short: frozenset[str] = frozenset()

    def prepare(self) -> str:
        """Find it; ``make install`` has installed it."""
        return environments.version_of(Path(sys.executable), "servekit")

    def command(self, directory: Path, settings: Sequence[str]) -> Command:
        """Let it choose a port."""
        cache = f"--cache-dir={directory / 'cache'}"
        alone = "--plugin=console.enabled=false"  # its observer is connected later, not leaked
        return Command([str(SERVEKIT_PROGRAM), "start", "--port=0", cache, alone, *settings], {})

    def port(self, _command: Command, said: str) -> int:
        """Read it."""
        found = URL.search(said) if " serving " in said else None
        return int(found[1]) if found else 0

    def role(self, command_line: str, *, is_root: bool, is_child: bool) -> str:
        """Tell by the module that runs."""
        if is_root:
            return "supervisor"
        if found := WORKER.search(command_line):
            return f"worker {found[1]}" if is_child else "other"
        if "servekit.frontend" in command_line:
            return "arbiter" if is_child else "front-end"
        return "other"


NO_ROWS: Final = {
    "F8": "it has no reload",
    "F10": "when its front-end ends, all of it ends",
    "F11": "what is counted are lines of servekit's log",
    "F18": "what it listens on is a matter of settings",
    "F19": "the library that shifts the clock is set in model.toml",
    "F20": "the statuses are servekit's",
    "floods": "it does not speak HTTP/2",
    "poison": "what is counted are lines of servekit's log",
    "streams": "the format of the stream is servekit's",
    "uploads": "it has no such limit",
    "memory": "it has no such limit",
}


class Mosec:
    """mosec with the same services, batches and replicas; what it cannot set is left as it is."""

    name = "mosec"
    ping_path = "/"
    cannot: Mapping[str, str] = NO_ROWS
    short: frozenset[str] = frozenset({"F9", "F13"})

    def prepare(self) -> str:
        """Make its environment on first use; the benchmark has the same."""
        environments.HOME.mkdir(parents=True, exist_ok=True)
        self._python = environments.virtual_environment("mosec", "mosec", "numpy", "msgpack")
        return environments.version_of(self._python / "python", "mosec")

    def command(self, directory: Path, settings: Sequence[str]) -> Command:
        """Translate the settings that it has."""
        port = free_port()
        options = dict(
            each[2:].split("=", 1) for each in settings if each.startswith("--") and "=" in each
        )
        models = [each for each in settings if not each.startswith("--")]
        argv = [str(self._python / "python"), str(MOSEC_PROGRAM), *models, "--log-level=warning"]
        argv += ["--address=127.0.0.1", f"--port={port}", f"--path={directory / 'socket'}"]
        if "queue" in options:
            argv.append(f"--capacity={options['queue']}")
        if "predict-timeout" in options:
            argv.append(f"--timeout={round(float(options['predict-timeout']) * 1000)}")
        if "max-body" in options:
            argv.append(f"--max-request-size={options['max-body']}")
        return Command(argv, {"FAULTS_REPLICAS": options.get("replicas", "0")}, port)

    def port(self, command: Command, _said: str) -> int:
        """Ask for it."""
        return command.port if answers_get(command.port, self.ping_path) else 0

    def role(self, command_line: str, *, is_root: bool, is_child: bool) -> str:
        """Tell by the program: the Rust one speaks HTTP, what Python has spawned are workers."""
        if is_root:
            return "supervisor"
        if "spawn_main" in command_line:
            return "worker work" if is_child else "other"
        return "front-end" if is_child and "resource_tracker" not in command_line else "other"


SERVEKIT: Final = Servekit()
PEERS: Final[dict[str, Subject]] = {"mosec": Mosec()}
