# SPDX-License-Identifier: Apache-2.0
"""Reaches a Ray cluster, and says what it lacks."""

import logging
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from servekit.errors import StartupError
from servekit_ray.controller import ControllerActor
from servekit_ray.fleet import NAMESPACE, cause_of

__all__ = ["create_controller", "find_controller", "join", "missing_resources"]

AUTO: Final = "auto"  #: RAY_ADDRESS, or else the cluster of this machine
HEAD_RESOURCE: Final = "node:__internal_head__"  #: Ray: only its head node has it
CURRENT_CLUSTER: Final = Path("/tmp/ray/ray_current_cluster")  # noqa: S108 - where Ray writes it
CONTROLLER_S: Final = 60.0  #: until its process has started on the head node
CONNECT_S: Final = 5.0  #: for the first connection; Ray itself would try for minutes
ATTEMPTS: Final = "RAY_gcs_server_port_wait_time_s"  #: of ``ray.init``, one each second
REFUSAL: Final = "InvalidAuthToken"
TOKEN_LINE: Final = re.compile(f"{REFUSAL}|Token authentication is ")
START_HINT: Final = "ray start --head starts a cluster, --address HOST:PORT names one"
REFUSED: Final = "the cluster wants a token, and this command sends none or another one; "
COPY_HINT: Final = (
    "copy ~/.ray/auth_token of the head node to this machine, and set RAY_AUTH_MODE=token"
)
SEND_HINT: Final = "RAY_AUTH_MODE=token sends that of ~/.ray/auth_token of this machine"
UNSUPPORTED: Final = "is not HOST:PORT of a Ray cluster"


def join(address: str) -> None:
    """Connect this process to the Ray cluster at *address*, unless it is connected.

    :raises StartupError: Ray is not installed, no cluster is found, it refuses the token of this
        process, or it runs other versions.
    """
    try:
        import ray
    except ImportError as error:
        raise StartupError(f"ray: cannot be imported: {error}; pip install ray") from error
    if ray.is_initialized():
        return
    check_reachable(address)
    said: list[str] = []
    try:
        with without_token_lines(said), few_attempts():
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
    except ray.exceptions.RayError as error:  # no token, although this process has to send one
        raise StartupError(f"{shown(address)}: {access_hint()}") from error
    except ConnectionError as error:
        is_refused = any(REFUSAL in line for line in said)
        hint = access_hint() if is_refused else f"no Ray cluster is found; {START_HINT}"
        raise StartupError(f"{shown(address)}: {hint}") from error
    except (RuntimeError, ValueError) as error:  # other versions of Ray or Python
        raise StartupError(f"{shown(address)}: {' '.join(str(error).split())}") from error


def shown(address: str) -> str:
    """Return *address* as people know it."""
    if address != AUTO:
        return f"--address {address}"
    return f"RAY_ADDRESS {given}" if (given := os.environ.get("RAY_ADDRESS")) else "this machine"


def access_hint() -> str:
    """Say how to send the token that the cluster wants."""
    has_file = (Path.home() / ".ray" / "auth_token").is_file()
    is_sent = os.environ.get("RAY_AUTH_MODE") == "token"
    return REFUSED + (SEND_HINT if has_file and not is_sent else COPY_HINT)


@contextmanager
def without_token_lines(said: list[str]) -> Iterator[None]:
    """Keep what Ray prints about tokens from stderr, and append it to *said*.

    Ray prints from C++, past ``sys.stderr``, so all that this process writes to it is held back
    meanwhile; everything else is printed at the end.
    """
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            kept.seek(0)
            for line in kept.read().splitlines(keepends=True):
                if TOKEN_LINE.search(text := line.decode(errors="replace")):
                    said.append(text)
                else:
                    os.write(2, line)


@contextmanager
def few_attempts() -> Iterator[None]:
    """Let Ray try for a few seconds only: the port is known to be open.

    Versions of Ray that do not know the variable try for 20 s.
    """
    is_mine = ATTEMPTS not in os.environ
    os.environ.setdefault(ATTEMPTS, "3")
    try:
        yield
    finally:
        if is_mine:
            del os.environ[ATTEMPTS]


def check_reachable(address: str) -> None:
    """Check that something listens at *address*, or that Ray has to find out what that is.

    :raises StartupError: nothing does.
    """
    found = address
    if address == AUTO:
        here = CURRENT_CLUSTER.read_text().strip() if CURRENT_CLUSTER.is_file() else ""
        found = os.environ.get("RAY_ADDRESS") or here
        if found in ("", AUTO):
            return
    host, _, port = found.rpartition(":")
    if not host or not port.isdecimal() or "://" in host:
        raise StartupError(f"{shown(address)}: {UNSUPPORTED}, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except OSError as error:
        raise StartupError(f"{shown(address)}: no Ray cluster answers: {error.strerror}") from error


def controller_name(deployment: str) -> str:
    """Return the name of the actor that looks after *deployment*."""
    return f"servekit:{deployment}"


def find_controller(deployment: str) -> Any:
    """Return the controller of a deployment.

    :raises StartupError: the cluster has no such deployment.
    """
    import ray

    try:
        return ray.get_actor(controller_name(deployment), namespace=NAMESPACE)
    except ValueError as error:
        raise StartupError(
            f"the cluster has no deployment called {deployment!r}; servekit ray deploy makes one"
        ) from error


def create_controller(deployment: str) -> Any:
    """Start the controller of a new deployment, on the head node.

    :raises StartupError: the deployment exists, or the actor cannot be started.
    """
    import ray

    options: dict[str, Any] = {
        "name": controller_name(deployment),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": -1,
        "num_cpus": 0,
        "resources": {HEAD_RESOURCE: 0.001},
    }
    try:
        controller = ray.remote(ControllerActor).options(**options).remote(deployment)
    except ValueError as error:
        raise StartupError(
            f"deployment {deployment}: exists; swap or scale it, end it with servekit ray down, "
            "or choose another --name"
        ) from error
    try:
        ray.get(controller.resume.remote(), timeout=CONTROLLER_S)
    except ray.exceptions.RayError as error:
        ray.kill(controller)
        raise StartupError(f"the controller cannot be started: {cause_of(error)}") from error
    return controller


def missing_resources(cpus: float, gpus: float, servers: int) -> str:
    """Say what the cluster lacks for *servers*, of which a node gets at most one.

    It compares with all that the nodes have, not with what is free.
    """
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    wanted = counted(cpus, "CPU") + (f" and {counted(gpus, 'GPU')}" if gpus else "")
    fit = [node for node in nodes if node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus]
    if len(fit) < servers:
        return (
            f"each server needs a Ray node for itself, with {wanted}: "
            f"{len(fit)} of {len(nodes)} nodes have that"
        )
    free = ray.available_resources()
    shown = counted(free.get("CPU", 0), "CPU") + (
        f" and {counted(free.get('GPU', 0), 'GPU')}" if gpus else ""
    )
    return f"each server needs {wanted} on a node without another one; {shown} are free in all"


def counted(number: float, noun: str) -> str:
    """Return ``1 CPU`` or ``2 CPUs``."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"
