# SPDX-License-Identifier: Apache-2.0
"""A Triton to compare answers with: that of the wheel nvidia-pytriton, with its Python backend."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.processes import free_port

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
START_S = 120.0
CONFIG = {
    **{name: f"TYPE_{name.upper()}" for name in ("bool", "uint8", "uint16", "uint32", "uint64")},
    **{name: f"TYPE_{name.upper()}" for name in ("int8", "int16", "int32", "int64")},
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "str": "TYPE_STRING",
}
MODEL = """
import os, sys
sys.path.append(os.environ["TRITON_PACKAGES"])
import numpy as np
import triton_python_backend_utils as triton

def simple(INPUT0, INPUT1):
    return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}

def simple_string(INPUT0, INPUT1):
    found = simple(INPUT0.astype(int), INPUT1.astype(int))
    return {name: array.astype(bytes).astype(object) for name, array in found.items()}

def simple_identity(INPUT0):
    return {"OUTPUT0": INPUT0}

def four(x):
    return {"y": x * 2}

def complete(text_input, max_tokens):
    return {"text_output": text_input + b"!" + max_tokens.astype(bytes).astype(object)}

def total(x):
    return {"y": x.sum(axis=1, keepdims=True, dtype=np.float64)}

def everything(**inputs):
    return {name + "_out": array for name, array in inputs.items()}

def fields(**inputs):
    return everything(**inputs)

class TritonPythonModel:
    def initialize(self, args):
        self.answer = globals()[args["model_name"]]
        import json
        self.names = [each["name"] for each in json.loads(args["model_config"])["input"]]

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        inputs = {n: triton.get_input_tensor_by_name(request, n).as_numpy() for n in self.names}
        outputs = self.answer(**inputs)
        return triton.InferenceResponse([triton.Tensor(n, a) for n, a in outputs.items()])
"""


def write_repository(directory, signatures):
    """Write a repository with a model for each of *signatures*, as ``model.toml`` has them."""
    for name, signature in signatures.items():
        version = directory / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(MODEL)
        tensors = "".join(
            f'{side} [{{ name: "{each["name"]}", data_type: {CONFIG[each["dtype"]]}, '
            f"dims: {each['shape']} }}]\n"
            for side, entries in (("input", "inputs"), ("output", "outputs"))
            for each in signature[entries]
        )
        text = f'name: "{name}"\nbackend: "python"\nmax_batch_size: 8\n{tensors}'
        text += "instance_group [{ kind: KIND_CPU, count: 1 }]\n"
        (directory / name / "config.pbtxt").write_text(text)


def _backends(bundle, directory):
    shutil.copytree(bundle / "backends" / "python", directory / "python", dirs_exist_ok=True)
    stub = bundle / "python_backend_stubs" / PYTHON / "triton_python_backend_stub"
    shutil.copy(stub, directory / "python")
    (directory / "python" / stub.name).chmod(0o755)
    return directory


@contextmanager
def running_triton(packages, scratch, signatures, grpc_port=0):
    """Yield host and port of a Triton that serves *signatures*.

    :param packages: the site-packages where nvidia-pytriton is.
    :param grpc_port: 0 switches gRPC off.
    """
    packages, bundle = Path(packages), Path(packages) / "pytriton" / "tritonserver"
    write_repository(scratch / "repository", signatures)
    backends = _backends(bundle, scratch / "backends")
    program = shutil.copy(bundle / "bin" / "tritonserver", scratch / "tritonserver")
    Path(program).chmod(0o755)
    port = free_port()
    command = [program, f"--http-port={port}", "--http-address=127.0.0.1"]
    grpc = [f"--grpc-port={grpc_port}", "--grpc-address=127.0.0.1"]
    command += grpc if grpc_port else ["--allow-grpc=false"]
    command += ["--allow-metrics=false", f"--model-repository={scratch / 'repository'}"]
    command += [f"--backend-directory={backends}", "--model-control-mode=none"]
    environment = {
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
        "TRITON_PACKAGES": str(packages),
        "PATH": "/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
    }
    log = scratch / "triton.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        _wait_ready(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()


def _wait_ready(process, port, log):
    deadline = time.monotonic() + START_S
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"Triton does not start:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)
