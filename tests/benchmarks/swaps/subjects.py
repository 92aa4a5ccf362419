# SPDX-License-Identifier: Apache-2.0
"""The servers whose model is replaced, each behind the same contract."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from time import time
from typing import Any, ClassVar, Final, NamedTuple, Self

from tests.benchmarks import environments
from tests.benchmarks.answers import HOST
from tests.benchmarks.environments import clean_environment, own_program
from tests.benchmarks.errors import NotReady
from tests.benchmarks.processes import ServerProcess, free_port, wait_until
from tests.benchmarks.servers import PEERS
from tests.benchmarks.swaps.versions import Version, build

READY_S: Final = 120.0
SWAP_S: Final = 90.0  #: after which a swap is taken for one that does not end
STEP_S: Final = 1.0  #: a new version has half of the requests for this long, then is watched


class Outcome(NamedTuple):
    """How one swap ended."""

    version: Version
    began: float  #: ``time.time``
    seconds: float
    is_served: bool  #: the new version has the traffic, as far as the server says
    said: str  #: why not, in the server's words
    steps: list[dict[str, Any]]


class SwappedServer:
    """A server with version 1 of the model; a context manager that waits until it serves."""

    key: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        """Start it; *directory* has a short path, and is for its files."""
        self.directory = directory
        self.port = free_port()
        self._process = self._start()

    def __enter__(self) -> Self:
        if not wait_until(self._serves, seconds=READY_S, every=0.2):
            lines = self._process.last_lines()
            self._process.stop()
            raise NotReady(f"{self.title} does not serve:\n{lines}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    @classmethod
    def version(cls) -> str:
        """Return the installed version; install it if it is not there.

        :raises Missing: it cannot be installed.
        """
        raise NotImplementedError

    def swap(self, version: Version, *options: str) -> Outcome:
        """Replace the model by *version*, and wait for the end."""
        began = time()
        is_served, said, steps = self._swap(version, *options)
        return Outcome(version, began, time() - began, is_served, said, steps)

    def _start(self) -> ServerProcess:
        raise NotImplementedError

    def _serves(self) -> bool:
        raise NotImplementedError

    def _swap(self, version: Version, *options: str) -> tuple[bool, str, list[dict[str, Any]]]:
        raise NotImplementedError


class SwappedServekit(SwappedServer):
    """servekit, told by ``servekit swap``."""

    key = "servekit"
    title = "servekit"

    @classmethod
    def version(cls) -> str:
        return environments.version_of(Path(own_program("python")), "servekit")

    def _start(self) -> ServerProcess:
        archive = build(self.directory, Version("1"))
        argv = [own_program("servekit"), "start", "--models", f"digits={archive}"]
        argv += [f"--port={self.port}", f"--run-dir={self.directory}", "--install-requirements"]
        env = clean_environment(SERVEKIT_CACHE_DIR=str(self.directory / "cache"))
        return ServerProcess(argv, env=env, cwd=self.directory)

    def _serves(self) -> bool:
        return " serving " in self._process.log.read_text(errors="replace")

    def _swap(self, version: Version, *options: str) -> tuple[bool, str, list[dict[str, Any]]]:
        archive = build(self.directory, version)
        argv = [own_program("servekit"), "swap", "digits", str(archive), "--json"]
        argv += [f"--run-dir={self.directory}", "--keep=0", f"--watch={STEP_S}"]
        argv += ["--shift", "50", f"--step={STEP_S}", *options]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=SWAP_S, env=os.environ
        )
        try:
            row = json.loads(done.stdout)
        except ValueError:
            row = {"error": (done.stdout + done.stderr).strip()}
        return done.returncode == 0, row.get("error", ""), row.get("steps", [])


class SwappedRay(SwappedServer):
    """Ray Serve, told by ``serve.run`` with the new version under the same name."""

    key = "ray"
    title = "Ray Serve"

    @classmethod
    def version(cls) -> str:
        bin_directory = environments.virtual_environment("ray", "ray[serve]")
        return environments.version_of(bin_directory / "python", "ray")

    def _start(self) -> ServerProcess:
        self._control_port = free_port()
        python = environments.HOME / "ray" / "bin" / "python"
        variables = {
            "BENCH_PORT": str(self.port),
            "BENCH_CONTROL_PORT": str(self._control_port),
            "BENCH_TEMP": str(self.directory / "r"),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        argv = [str(python), str(PEERS / "ray_serve.py")]
        return ServerProcess(argv, env=clean_environment(**variables), cwd=self.directory)

    def _serves(self) -> bool:
        if not self._process.is_running:
            return False
        return "BENCH SERVES" in self._process.log.read_text(errors="replace")

    def _swap(self, version: Version, *_: str) -> tuple[bool, str, list[dict[str, Any]]]:
        connection = http.client.HTTPConnection(HOST, self._control_port, timeout=SWAP_S)
        try:
            connection.request("POST", "/", json.dumps(version._asdict()))
            said = connection.getresponse().read().decode()
        except TimeoutError:
            said = f"no end within {SWAP_S:g} s"
        except (OSError, http.client.HTTPException) as error:
            print(self._process.last_lines(), file=sys.stderr)
            said = f"the driver does not answer: {error}"
        finally:
            connection.close()
        return not said, said, []


SUBJECTS: Final = (SwappedServekit, SwappedRay)
