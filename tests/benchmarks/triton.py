# SPDX-License-Identifier: Apache-2.0
"""Triton with its Python backend, which a wheel bundles: no container, no GPU."""

import shutil
import struct
import sys
from pathlib import Path
from typing import Final

from tests.benchmarks import environments
from tests.benchmarks.answers import Request, read_v2
from tests.benchmarks.cases import Case
from tests.benchmarks.encoding import CONTENT_TYPES, to_v2
from tests.benchmarks.environments import clean_environment, debian_library
from tests.benchmarks.errors import Missing
from tests.benchmarks.processes import ServerProcess
from tests.benchmarks.servers import ONE_THREAD, PEERS, Server

WHEEL: Final = "nvidia-pytriton==0.7.0"
TRITON: Final = "2.51.0"  #: what the wheel bundles
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
BACKENDS: Final = environments.HOME / "triton" / "backends"
RAW: Final = (("Inference-Header-Content-Length", "0"),)  #: the body is the tensor, nothing else
OPTIONS: Final = (
    *("--http-address=127.0.0.1", "--allow-grpc=false", "--allow-metrics=false"),
    *("--log-info=false", "--exit-timeout-secs=5"),
)
CONFIGURATION: Final = """\
name: "{model}"
backend: "python"
max_batch_size: {max_batch_size}
input [{{ name: "x", data_type: TYPE_FP32, dims: [-1] }}]
output [{{ name: "prediction", data_type: {output}, dims: [-1] }}]
instance_group [{{ kind: KIND_CPU, count: 1 }}]
"""
BATCHING: Final = "dynamic_batching { max_queue_delay_microseconds: 0 }\n"


def read_binary(answer: bytes) -> float:
    """Read the one number behind the JSON of an answer to a raw tensor."""
    (value,) = struct.unpack("<d", answer[-8:])
    return float(value)


def v2_request(path: str, case: Case, seed: int) -> Request:
    """Return the request of the Open Inference Protocol for *case*: JSON, or nothing but bytes."""
    values = case.values(seed)
    is_raw = case.form == "raw"
    return Request(
        path=path,
        content_type=CONTENT_TYPES[case.form],
        body=case.body(values) if is_raw else to_v2(values),
        expected=case.expected(values),
        read=read_binary if is_raw else read_v2,
        headers=RAW if is_raw else (),
    )


class Triton(Server):
    """Triton Inference Server: a front-end in C++ and one Python process for the model."""

    ready_path = "/v2/health/ready"

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.key = f"triton-{max_batch_size}"
        self.title = f"Triton, Python backend, batch {max_batch_size}"

    def install(self) -> None:
        debian_library(f"libpython{PYTHON}.so.1.0", f"libpython{PYTHON}")
        python = environments.virtual_environment("triton", WHEEL)
        self._packages = python.parent / "lib" / f"python{PYTHON}" / "site-packages"
        self._bundle = self._packages / "pytriton" / "tritonserver"
        stub = self._bundle / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
        if not stub.exists():
            raise Missing(f"{WHEEL} has no Python backend for Python {PYTHON}")
        shutil.copytree(self._bundle / "backends", BACKENDS, dirs_exist_ok=True)
        shutil.copy(stub, BACKENDS / "python")
        for program in (BACKENDS / "python" / stub.name, self._bundle / "bin" / "tritonserver"):
            program.chmod(0o755)

    def version(self) -> str:
        return TRITON

    def refuses(self, case: Case) -> str | None:
        if case.form not in ("json", "raw"):
            return "its HTTP takes JSON and raw tensors only"
        return super().refuses(case)

    def path(self, case: Case) -> str:
        return f"/v2/models/{case.model}/infer"

    def request(self, case: Case, seed: int = 0) -> Request:
        return v2_request(self.path(case), case, seed)

    def start(self, directory: Path, port: int, case: Case) -> ServerProcess:
        self._write_model(directory / "repository" / case.model, case)
        argv = [str(self._bundle / "bin" / "tritonserver"), f"--http-port={port}", *self.options()]
        argv += [f"--model-repository={directory / 'repository'}"]
        argv += [f"--backend-directory={BACKENDS}"]
        libraries = self._packages.joinpath("nvidia_pytriton.libs")
        env = clean_environment(
            LD_LIBRARY_PATH=str(libraries),
            BENCH_PATH=f"{PEERS}:{self._packages}",
            PATH="/usr/bin:/bin",  # the stub's Python is Debian's, and looks here for its library
            **ONE_THREAD,
        )
        return ServerProcess(argv, env=env, cwd=directory)

    def options(self) -> tuple[str, ...]:
        """Return the options of ``tritonserver``, without those about the model."""
        return OPTIONS

    def _write_model(self, directory: Path, case: Case) -> None:
        """Write the model's directory of the repository."""
        (directory / "1").mkdir(parents=True, exist_ok=True)  # start-up is measured twice
        text = CONFIGURATION.format(
            model=case.model,
            max_batch_size=self._max_batch_size,
            output="TYPE_FP32" if case.model == "array-out" else "TYPE_FP64",
        )
        batching = BATCHING if self._max_batch_size > 1 else ""
        (directory / "config.pbtxt").write_text(text + batching, encoding="utf-8")
        shutil.copy(PEERS / "triton_model.py", directory / "1" / "model.py")
