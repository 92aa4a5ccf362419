# SPDX-License-Identifier: Apache-2.0
"""The servers that are measured, each behind the same contract."""

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Final

from tests.benchmarks import encoding, environments
from tests.benchmarks.answers import Request
from tests.benchmarks.cases import ARRAYS, Case
from tests.benchmarks.environments import clean_environment, debian_program, own_program
from tests.benchmarks.processes import ServerProcess

HERE: Final = Path(__file__).parent
MODELS: Final = HERE / "models"
PEERS: Final = HERE / "peers"
STATIC_ANSWER: Final = 12.0
ARRAYS_MS: Final = 30_000  #: mosec's default of 3 s is short for a batch of long arrays
ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  #: as in model.toml


def title_of(name: str, max_batch_size: int) -> str:
    """Name a configuration of a server that may batch."""
    return f"{name}, batch {max_batch_size}" + (" / 1 ms" if max_batch_size > 1 else "")


class Server(ABC):
    """One server in one configuration, serving one model with one worker.

    ``install`` comes first and once; then ``start`` any number of times.
    """

    key: str  #: as in ``--servers`` and in the JSON
    title: str  #: as in the tables
    ready_path: ClassVar[str] = "/ping"
    settle_s: ClassVar[int] = 0  #: of load after each start, before anything is measured
    is_static: ClassVar[bool] = False  #: answers without looking at the input
    has_stages: ClassVar[bool] = False  #: leads a request through several services

    @abstractmethod
    def install(self) -> None:
        """Make the server's environment. Blocks for minutes on first use.

        :raises Missing: it cannot be made here.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the installed version."""

    @abstractmethod
    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        """Start it on a loopback *port* with what *case* needs; *directory* is for its files."""

    def refuses(self, case: Case) -> str | None:
        """Return why the server cannot serve *case*; ``None`` if it can."""
        is_pipeline = case.model in ("pipeline", "apart")
        return "no stages" if is_pipeline and not self.has_stages else None

    def request(self, case: Case, seed: int = 0) -> Request:
        """Return the request that asks this server for *case*."""
        values = case.values(seed)
        return Request(
            path=self.path(case),
            content_type=encoding.CONTENT_TYPES[case.form],
            body=case.body(values),
            expected=STATIC_ANSWER if self.is_static else case.expected(values),
        )

    def path(self, case: Case) -> str:
        return f"/{case.model}/predict"


class Servekit(Server):
    """This project, as `make install` installed it, with every default on."""

    key = "servekit"
    title = "servekit"
    has_stages = True

    def install(self) -> None:
        environments.HOME.mkdir(parents=True, exist_ok=True)
        for model in MODELS.iterdir():
            archive = ["-o", str(environments.HOME / f"{model.name}.mar"), "--force"]
            build = [own_program("servekit-archive"), "build", str(model), *archive]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)

    def version(self) -> str:
        return environments.version_of(Path(own_program("python")), "servekit")

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        archive = environments.HOME / f"{self.archive(case)}.mar"
        argv = [own_program("servekit"), "start", "--models", str(archive), f"--port={port}"]
        argv += self.options()
        env = clean_environment(SERVEKIT_CACHE_DIR=str(directory / "cache"))
        return ServerProcess(argv, env=env, cwd=directory)

    def archive(self, case: Case) -> str:
        """Return the name of the archive with the model of *case*."""
        return "pipeline" if case.model == "apart" else case.model

    def options(self) -> list[str]:
        """Return further options of the server."""
        return []

    def path(self, case: Case) -> str:
        return "/pipeline/apart" if case.model == "apart" else super().path(case)


class Mosec(Server):
    """mosec, a Rust front-end; see the README for why these settings are its best."""

    ready_path = "/"
    has_stages = True

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"mosec-{max_batch_size}"
        self.title = title_of("mosec", max_batch_size)

    def install(self) -> None:
        self._bin = environments.virtual_environment("mosec", "mosec", "numpy", "msgpack")

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "mosec")

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        argv = [str(self._bin / "python"), str(PEERS / "mosec_server.py"), "--log-level=warning"]
        argv += ["--address=127.0.0.1", f"--port={port}", f"--path={directory / 'socket'}"]
        if case in ARRAYS:
            argv.append(f"--timeout={ARRAYS_MS}")
        settings = peer_settings(case, self._max_batch_size)
        return ServerProcess(argv, env=clean_environment(**settings), cwd=directory)


class Nginx(Server):
    """nginx with a static answer: what this machine's network stack and client can do at most."""

    key = "nginx"
    title = "nginx, static answer"
    is_static = True

    def install(self) -> None:
        self._program = debian_program("nginx")

    def refuses(self, case: Case) -> str | None:
        is_long = case.model == "array-out"
        return "its answer is a short constant" if is_long else super().refuses(case)

    def version(self) -> str:
        done = subprocess.run([self._program, "-v"], capture_output=True, text=True, check=True)
        return done.stderr.strip().rpartition("/")[2]

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        settings = directory / "nginx.conf"
        template = (PEERS / "nginx.conf").read_text(encoding="utf-8")
        settings.write_text(template.replace("@PORT@", str(port)), encoding="utf-8")
        argv = [self._program, "-p", f"{directory}/", "-c", str(settings), "-e", "stderr"]
        return ServerProcess(argv, env=clean_environment(), cwd=directory)


def peer_settings(case: Case, max_batch_size: int = 1) -> dict[str, str]:
    """Return the variables that tell a program of ``peers/`` what to serve."""
    return {
        "BENCH_MODEL": case.model,
        "BENCH_FORM": case.form,
        "BENCH_MAX_BATCH_SIZE": str(max_batch_size),
        **ONE_THREAD,
    }
