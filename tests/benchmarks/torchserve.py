# SPDX-License-Identifier: Apache-2.0
"""TorchServe: measured only when asked for, as it is big to install and slow to start."""

import subprocess
from pathlib import Path
from typing import Final

from tests.benchmarks import environments
from tests.benchmarks.cases import Case
from tests.benchmarks.environments import clean_environment, debian_program
from tests.benchmarks.processes import ServerProcess, free_port
from tests.benchmarks.servers import MODELS, PEERS, Server, title_of

TORCH: Final = "torch==2.13.0"  #: TorchServe's workers import it
PORTS: Final = ("MANAGEMENT", "METRICS", "GRPC_INFERENCE", "GRPC_MANAGEMENT")


class TorchServe(Server):
    """TorchServe: a Java front-end (Netty) and one Python worker."""

    settle_s = 10  # Java compiles what has run often

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"torchserve-{max_batch_size}"
        self.title = title_of("TorchServe", max_batch_size)

    def install(self) -> None:
        self._java = debian_program("java", "openjdk-17-jre-headless")
        requirements = ("torchserve", "torch-model-archiver", "pyyaml", "numpy", "msgpack", TORCH)
        self._bin = environments.virtual_environment("torchserve", *requirements)
        for model in MODELS.iterdir():
            archive = [str(self._bin / "torch-model-archiver"), f"--model-name={model.name}"]
            archive += [f"--handler={PEERS / 'torchserve_handler.py'}", "--version=1.0", "--force"]
            archive += [f"--extra-files={PEERS / 'models.py'}"]
            archive += [f"--export-path={environments.HOME / 'torchserve'}"]
            quiet = subprocess.DEVNULL
            subprocess.run(archive, check=True, stdout=quiet, stderr=quiet)

    def version(self) -> str:
        return environments.version_of(self._bin / "python", "torchserve")

    def refuses(self, case: Case) -> str | None:
        if case.model == "array-out":
            return "it takes longer than 10 s for an answer of 25,000 numbers"
        return super().refuses(case)

    def path(self, case: Case) -> str:
        return f"/predictions/{case.model}"

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        settings = directory / "config.properties"
        settings.write_text(self._settings(port, case), encoding="utf-8")
        argv = [str(self._bin / "torchserve"), "--start", "--foreground", "--no-config-snapshots"]
        argv += [f"--ts-config={settings}", f"--log-config={PEERS / 'torchserve-log4j2.xml'}"]
        argv += [f"--model-store={environments.HOME / 'torchserve'}"]
        path = f"{self._bin}:{environments.SEARCH_PATH}"
        env = clean_environment(TMPDIR=str(directory), LOG_LOCATION=str(directory), PATH=path)
        return ServerProcess(argv, env=env, cwd=directory)

    def _settings(self, port: int, case: Case) -> str:
        text = (PEERS / "torchserve.properties").read_text(encoding="utf-8")
        values: dict[str, object] = {name: free_port() for name in PORTS}
        values |= {"PORT": port, "BATCH": self._max_batch_size, "MODEL": case.model}
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        return text
