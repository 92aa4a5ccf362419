# SPDX-License-Identifier: Apache-2.0
"""Refuses variables of the container that contradict the manifests."""

import re
from collections.abc import Mapping
from typing import Final

from servekit.errors import StartupError
from servekit.settings import Settings, SettingsError, load_settings
from servekit_kubernetes.kserve import GRPC_PORT, STOP_S
from servekit_kubernetes.plan import DRAIN_DELAY_S, GRPC, SPARE_S

__all__ = ["CONFLICTS", "changes_workers", "check_environment"]

PORT: Final = 8080  #: for HTTP, in every image
REACHED: Final = f"the probes and the Services ask for HTTP at port {PORT} of the pod"
SECRET: Final = "a token belongs in a Secret; docs/kubernetes.md says how a pod gets it"  # noqa: S105
#: variable: why it cannot be set
OF_BOTH: Final = {
    "SERVEKIT_HOST": REACHED,
    "SERVEKIT_PORT": REACHED,
    "SERVEKIT_BIND": REACHED,
    "SERVEKIT_TLS_CERTIFICATE": REACHED,
    "SERVEKIT_TLS_KEY": REACHED,
    "SERVEKIT_TLS_CLIENT_CA": REACHED,
    "SERVEKIT_PREDICT_TOKEN": SECRET,
    "SERVEKIT_MANAGE_TOKEN": SECRET,
    "SERVEKIT_WORKER_USER": "a pod has no right to change users",
    "SERVEKIT_MODELS": "the command of the container names the models",
}
CONFLICTS: Final = OF_BOTH | {
    "SERVEKIT_CACHE_DIR": "the manifest mounts a volume where the image has its cache",
    "SERVEKIT_FETCH_ASSETS": "the image was made to have its assets inside, or to fetch them",
    "SERVEKIT_INSTALL_REQUIREMENTS": "the image has the requirements of its models",
}
ADDRESS: Final = re.compile(r"(?:0\.0\.0\.0|\[::\]):(\d{1,5})")  #: one that other pods reach
OF_IMAGE: Final = {"SERVEKIT_HOST": "0.0.0.0"}  # noqa: S104  # pods have an address each
OF_KSERVE: Final = OF_BOTH | {
    GRPC: f"services for gRPC expect it at port {GRPC_PORT}",
}


def check_environment(env: Mapping[str, str], *, has_models: bool) -> Settings:
    """Return what *env* says to a server.

    :param has_models: the image has models; without them it is for KServe.
    :raises StartupError: the server would refuse a variable, or a manifest contradicts it.
    """
    conflicts = CONFLICTS if has_models else OF_KSERVE
    for name, text in env.items():
        if text and name in conflicts:
            raise StartupError(f"--env {name}: {conflicts[name]}")
    if address := env.get(GRPC):
        _check_grpc(address)
    try:
        settings = load_settings({}, environment=OF_IMAGE | dict(env))
    except SettingsError as error:
        raise StartupError(f"--env: {error}") from error
    if not has_models:
        _check_end(env, settings)
    return settings


def _check_grpc(address: str) -> None:
    found = ADDRESS.fullmatch(address)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise StartupError(f"--env {GRPC}: {address!r} is not an address like 0.0.0.0:{GRPC_PORT}")
    if int(found[1]) == PORT:
        raise StartupError(f"--env {GRPC}: port {PORT} is that of HTTP")


def _check_end(env: Mapping[str, str], settings: Settings) -> None:
    delay_s = settings.drain_delay if env.get("SERVEKIT_DRAIN_DELAY") else DRAIN_DELAY_S
    grace_s = settings.grace if env.get("SERVEKIT_GRACE") else 0
    if delay_s + grace_s > STOP_S - SPARE_S:
        raise StartupError(
            f"--env: KServe gives a pod {STOP_S} s to end: SERVEKIT_DRAIN_DELAY ({delay_s:g}) and"
            f" SERVEKIT_GRACE ({grace_s:g}) together can be {STOP_S - SPARE_S} s"
        )


def changes_workers(settings: Settings) -> bool:
    """Whether *settings* say how many workers a model has."""
    return bool(settings.replicas) or any(
        each.replicas is not None or each.ranks is not None
        for model in settings.deployments
        for each in (model, *model.stages.values())
    )
