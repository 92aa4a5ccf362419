# SPDX-License-Identifier: Apache-2.0
"""The servers that are measured, each behind the same contract."""

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from tests.benchmarks import environments
from tests.benchmarks.environments import clean_environment, debian_program, own_program
from tests.benchmarks.processes import ServerProcess

HERE: Final = Path(__file__).parent
MODEL: Final = HERE / "models" / "sum"
PEERS: Final = HERE / "peers"


class Server(ABC):
    """One server in one configuration, serving the model ``sum`` with one worker.

    ``install`` comes first and once; then ``start`` any number of times.
    """

    key: str  #: as in ``--servers`` and in the JSON
    title: str  #: as in the tables
    predict_path: ClassVar[str] = "/sum/predict"
    ready_path: ClassVar[str] = "/ping"
    settle_s: ClassVar[int] = 0  #: of load after each start, before anything is measured
    is_static: ClassVar[bool] = False  #: answers without looking at the input

    @abstractmethod
    def install(self) -> None:
        """Make the server's environment. Blocks for minutes on first use.

        :raises Missing: it cannot be made here.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the installed version."""

    @abstractmethod
    def start(self, directory: Path, port: int) -> ServerProcess:
        """Start it on a loopback *port*, with *directory* (empty, private) for its files."""


class Servekit(Server):
    """This project, as `make install` installed it, with every default on."""

    key = "servekit"
    title = "servekit"

    def install(self) -> None:
        self._archive = environments.HOME / "sum.mar"
        self._archive.parent.mkdir(parents=True, exist_ok=True)
        build = [own_program("servekit-archive"), "build", str(MODEL), "-o", str(self._archive)]
        subprocess.run([*build, "--force"], check=True, stdout=subprocess.DEVNULL)

    def version(self) -> str:
        return environments.version_of(Path(own_program("python")), "servekit")

    def start(self, directory: Path, port: int) -> ServerProcess:
        argv = [own_program("servekit"), "start", "--models", str(self._archive), f"--port={port}"]
        env = clean_environment(SERVEKIT_CACHE_DIR=str(directory / "cache"))
        return ServerProcess(argv, env=env, cwd=directory)


class Mosec(Server):
    """mosec, a Rust front-end; see the README for why these settings are its best."""

    ready_path = "/"

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"mosec-{max_batch_size}"
        self.title = f"mosec, batch {max_batch_size}" + (" / 1 ms" if max_batch_size > 1 else "")

    def install(self) -> None:
        self._bin = environments.virtual_environment("mosec", "mosec")

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "mosec")

    def start(self, directory: Path, port: int) -> ServerProcess:
        argv = [str(self._bin / "python"), str(PEERS / "mosec_sum.py"), "--log-level=warning"]
        argv += ["--address=127.0.0.1", f"--port={port}", f"--path={directory}"]
        env = clean_environment(BENCH_MAX_BATCH_SIZE=str(self._max_batch_size))
        return ServerProcess(argv, env=env, cwd=directory)


class Nginx(Server):
    """nginx with a static answer: what this machine's network stack and client can do at most."""

    key = "nginx"
    title = "nginx, static answer"
    is_static = True

    def install(self) -> None:
        self._program = debian_program("nginx")

    def version(self) -> str:
        done = subprocess.run([self._program, "-v"], capture_output=True, text=True, check=True)
        return done.stderr.strip().rpartition("/")[2]

    def start(self, directory: Path, port: int) -> ServerProcess:
        settings = directory / "nginx.conf"
        template = (PEERS / "nginx.conf").read_text(encoding="utf-8")
        settings.write_text(template.replace("@PORT@", str(port)), encoding="utf-8")
        argv = [self._program, "-p", f"{directory}/", "-c", str(settings), "-e", "stderr"]
        return ServerProcess(argv, env=clean_environment(), cwd=directory)
