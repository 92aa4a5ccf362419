# SPDX-License-Identifier: Apache-2.0
"""Servers that are measured only when asked for: big to install, or slow to start."""

import subprocess
from pathlib import Path
from typing import Final

from tests.benchmarks import environments
from tests.benchmarks.environments import clean_environment, debian_program
from tests.benchmarks.processes import ServerProcess, free_port
from tests.benchmarks.servers import PEERS, Server

TORCH: Final = "torch==2.13.0"  #: TorchServe's workers import it
PORTS: Final = ("MANAGEMENT", "METRICS", "GRPC_INFERENCE", "GRPC_MANAGEMENT")


class LitServe(Server):
    """LitServe: FastAPI processes in front of one worker."""

    ready_path = "/health"

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"litserve-{max_batch_size}"
        self.title = f"LitServe, batch {max_batch_size}" + (" / 1 ms" * (max_batch_size > 1))

    def install(self) -> None:
        self._bin = environments.virtual_environment("litserve", "litserve")

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "litserve")

    def start(self, directory: Path, port: int) -> ServerProcess:
        argv = [str(self._bin / "python"), str(PEERS / "litserve_sum.py")]
        settings = {"BENCH_MAX_BATCH_SIZE": str(self._max_batch_size), "BENCH_PORT": str(port)}
        return ServerProcess(argv, env=clean_environment(**settings), cwd=directory)


class TorchServe(Server):
    """TorchServe: a Java front-end (Netty) and one Python worker."""

    predict_path = "/predictions/sum"
    settle_s = 10  # Java compiles what has run often

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"torchserve-{max_batch_size}"
        self.title = f"TorchServe, batch {max_batch_size}" + (" / 1 ms" * (max_batch_size > 1))

    def install(self) -> None:
        self._java = debian_program("java", "openjdk-17-jre-headless")
        requirements = ("torchserve", "torch-model-archiver", "pyyaml", TORCH)
        self._bin = environments.virtual_environment("torchserve", *requirements)
        archive = [str(self._bin / "torch-model-archiver"), "--model-name=sum", "--version=1.0"]
        archive += [f"--handler={PEERS / 'torchserve_sum.py'}", "--force"]
        archive += [f"--export-path={environments.HOME / 'torchserve'}"]
        subprocess.run(archive, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "torchserve")

    def start(self, directory: Path, port: int) -> ServerProcess:
        settings = (PEERS / "torchserve.properties").read_text(encoding="utf-8")
        values = {name: free_port() for name in PORTS}
        values |= {"PORT": port, "BATCH": self._max_batch_size}
        for name, value in values.items():
            settings = settings.replace(f"@{name}@", str(value))
        (directory / "config.properties").write_text(settings, encoding="utf-8")
        argv = [str(self._bin / "torchserve"), "--start", "--foreground", "--no-config-snapshots"]
        argv += [f"--ts-config={directory / 'config.properties'}"]
        argv += [f"--log-config={PEERS / 'torchserve-log4j2.xml'}"]
        argv += [f"--model-store={environments.HOME / 'torchserve'}"]
        path = f"{self._bin}:{environments.SEARCH_PATH}"
        env = clean_environment(TMPDIR=str(directory), LOG_LOCATION=str(directory), PATH=path)
        return ServerProcess(argv, env=env, cwd=directory)
