# SPDX-License-Identifier: Apache-2.0
"""servekit with models that have signatures: by the Open Inference Protocol, and natively."""

from pathlib import Path
from typing import ClassVar

from tests.benchmarks import environments
from tests.benchmarks.answers import Request
from tests.benchmarks.cases import Case
from tests.benchmarks.environments import clean_environment, own_program
from tests.benchmarks.processes import ServerProcess
from tests.benchmarks.servers import Servekit
from tests.benchmarks.triton import v2_request

MODELS = ("sum", "tensors")


class SignedServekit(Servekit):
    """The native routes of models with a signature: what the protocol costs is seen beside it."""

    key = "signed"
    title = "servekit, models with signatures"
    forms: ClassVar[tuple[str, ...]] = ("json", "msgpack", "npy", "raw")

    def refuses(self, case: Case) -> str | None:
        if case.model not in MODELS or case.form not in self.forms:
            return "not measured with a signature"
        return super().refuses(case)

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        archive = environments.HOME / f"oip-{case.model}.mar"
        argv = [own_program("servekit"), "start", "--models", str(archive), f"--port={port}"]
        env = clean_environment(SERVEKIT_CACHE_DIR=str(directory / "cache"))
        return ServerProcess(argv, env=env, cwd=directory)


class OipServekit(SignedServekit):
    """The same models by the plugin servekit-oip, with the requests that Triton gets."""

    key = "oip"
    title = "servekit, Open Inference Protocol"
    forms = ("json", "raw")

    def path(self, case: Case) -> str:
        return f"/v2/models/{case.model}/infer"

    def request(self, case: Case, seed: int = 0) -> Request:
        return v2_request(self.path(case), case, seed)
