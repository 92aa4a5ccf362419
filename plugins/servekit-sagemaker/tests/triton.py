# SPDX-License-Identifier: Apache-2.0
"""A Triton that answers as in a container of SageMaker.

It comes from a virtual environment with nvidia-pytriton, whose path is in ``TRITON_ENVIRONMENT``;
the folder ``backends`` in it is Triton's, with the stub of the Python backend.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import free_port

from .endpoint import WAIT_S, Endpoint

__all__ = ["Triton", "find_triton", "write_triton_model"]

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
CONFIGURATION = """
name: "sum"
backend: "python"
max_batch_size: 0
input [{ name: "x", data_type: TYPE_FP32, dims: [3] }]
output [{ name: "y", data_type: TYPE_FP32, dims: [1] }]
instance_group [{ kind: KIND_CPU, count: 1 }]
"""
MODEL = """
import os, sys

sys.path.append(os.environ["TRITON_PACKAGES"])
import numpy as np
import triton_python_backend_utils as backend

class TritonPythonModel:
    def execute(self, requests):
        found = []
        for request in requests:
            x = backend.get_input_tensor_by_name(request, "x").as_numpy()
            if x[0] < 0:
                raise ValueError("as asked")
            y = backend.Tensor("y", np.array([x.sum()], np.float32))
            found.append(backend.InferenceResponse([y]))
        return found
"""


def find_triton():
    """Return the virtual environment, or ``None``."""
    path = Path(os.environ.get("TRITON_ENVIRONMENT", ""))
    return path if (path / "backends/python").is_dir() else None


def write_triton_model(directory, *, is_broken=False):
    """Write a model of a repository, which sums three numbers."""
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(CONFIGURATION)
    (directory / "1/model.py").write_text("raise ValueError('as asked')" if is_broken else MODEL)
    return directory


class Triton(Endpoint):
    """One server; it ends with ``stop``."""

    def __init__(self, environment, base, *options, **variables):
        packages = environment / "lib" / PYTHON / "site-packages"
        bundle = packages / "pytriton/tritonserver"
        self.port = free_port()
        command = [
            *(bundle / "bin/tritonserver", f"--model-repository={base}"),
            *(f"--backend-directory={environment / 'backends'}", "--exit-timeout-secs=5"),
            *("--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"),
            *("--allow-sagemaker=true", f"--sagemaker-port={self.port}", *options),
        ]
        own = {
            "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
            "PATH": "/usr/bin:/bin",
            "TRITON_PACKAGES": str(packages),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        }
        self.log = (base.parent / "triton.log").open("w")
        self.process = subprocess.Popen(
            command, env=own | variables, cwd=base, stdout=self.log, stderr=subprocess.STDOUT
        )

    @property
    def output(self):
        return Path(self.log.name).read_text()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.log.close()
