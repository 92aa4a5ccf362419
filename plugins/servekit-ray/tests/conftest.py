# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of several nodes on this machine, and archives to deploy."""

import inspect
import random
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from servekit.errors import StartupError

#: files that a Ray node waits for at its start, at most for 15 s, which its agents exceed on a
#: busy machine; -1: there is no such port
PORTS = ("metrics_agent_port", "dashboard_agent_listen_port", "metrics_export_port")
#: a driver waits for ever if its first workers have not registered by then (a minute); a node that
#: leaves checks of its health unanswered for so long (10 s) is lost, and with it its GPUs; a proxy
#: of Ray Serve that is not ready by then (5 s) is killed, and who waits for it is not told; workers
#: of Ray have a niceness of 15: next to other tests they would get a thirtieth of a core
PATIENCE = {
    "RAY_worker_niceness": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "300",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "60000",
}
NODE = {"num_cpus": 4, "object_store_memory": 100 << 20}
SERVICE = """\
import os
import time

from servekit import Service

DEVICE = os.environ.get("CUDA_VISIBLE_DEVICES")


class Greet(Service):
    def predict(self, batch: list[str]) -> list[str]:
        time.sleep({seconds})
        return [f"{greeting}, {{name}}" for name in batch]
"""


@pytest.fixture
def greeter(tmp_path):
    """Return a function that makes archives of a model called greet."""

    def make(version="1.0", greeting="Hello", output="", seconds=0.0, weights=0):
        directory = tmp_path / f"greet-{version}"
        directory.mkdir()
        example = f'[[examples]]\ninput = "Ada"\noutput = "{output or greeting + ", Ada"}"\n'
        example = "" if "{" in greeting else example
        head = f'name = "greet"\nversion = "{version}"\nservice = "service:Greet"\n'
        (directory / "model.toml").write_text(head + example)
        (directory / "weights.bin").write_bytes(random.Random(1).randbytes(weights))
        code = SERVICE.format(seconds=seconds, greeting=greeting)
        (directory / "service.py").write_text(code)
        target = tmp_path / f"greet-{version}.mar"
        build_archive(directory, target)
        return str(target)

    return make


@pytest.fixture(scope="session")
def cluster():
    """Four Ray nodes; the first one is the head."""
    ray = pytest.importorskip("ray")
    from ray import _private
    from ray.cluster_utils import Cluster

    directory = Path(tempfile.mkdtemp(prefix="r", dir="/dev/shm"))  # paths of sockets are short
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_private.services, "start_raylet", with_ports(_private.services.start_raylet))
        patch.setattr(_private.utils, "get_dashboard_dependency_error", lambda: ImportError())
        patch.setenv("PYTHONDONTWRITEBYTECODE", "")
        (directory / "ray").mkdir()  # Ray writes the address of the cluster there, in place of /tmp
        patch.setenv("RAY_TMPDIR", str(directory))
        for name, value in PATIENCE.items():
            patch.setenv(name, value)
        head = {**node(), "include_dashboard": False, "temp_dir": str(directory)}
        made = Cluster(initialize_head=True, head_node_args=head)
        for gpus in (0, 0, 2):  # they need not exist
            made.add_node(**node(), num_gpus=gpus)
        yield made
        ray.shutdown()
        made.shutdown()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def gpus(cluster):
    """Add a Ray node with two GPUs: the test of lost nodes may have ended the one there was."""
    cluster.add_node(**node(), num_gpus=2)


def node():
    """Return the arguments of a Ray node."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return {**NODE, "runtime_env_agent_port": free.getsockname()[1]}


def with_ports(start_raylet):
    """Return a function that starts a Ray daemon without waiting for its agents."""

    def start(*args, **kwargs):
        given = inspect.signature(start_raylet).bind(*args, **kwargs).arguments
        runtime = {"runtime_env_agent_port": given["runtime_env_agent_port"]}
        for name, port in {**dict.fromkeys(PORTS, -1), **runtime}.items():
            Path(given["session_dir"], f"{name}_{given['node_id']}").write_text(str(port))
        return start_raylet(*args, **kwargs)

    return start


@pytest.fixture
def deployments(cluster):
    """Return a function that deploys to the cluster; the deployments end with the test."""
    from servekit_ray import deploy

    made = []

    def make(*models, **options):
        made.append(deploy(models, address=cluster.address, **{"timeout_s": 240, **options}))
        return made[-1]

    yield make
    for each in made:
        with suppress(StartupError):  # the test has ended it
            each.down()
