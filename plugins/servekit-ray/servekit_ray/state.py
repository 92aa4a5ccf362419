# SPDX-License-Identifier: Apache-2.0
"""The desired state of a deployment and its present one: plain values, without Ray."""

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from servekit.settings.values import shown_url

__all__ = [
    "RUNNING",
    "DeploymentStatus",
    "DesiredState",
    "RollOperation",
    "ServerOrder",
    "ServerStatus",
    "ShippedModel",
    "plain",
]

RUNNING: Final = "running"
HIDDEN: Final = "***"  #: in place of a value that may be a secret


class ShippedModel(Struct, frozen=True):
    """A model as servers get it: an archive with a digest, or a URL that each server opens."""

    file: str = ""  #: the name of the archive's file
    digest: str = ""  #: SHA-256 of the file, hexadecimal
    url: str = ""
    #: after each swap a URL has another one, because something else may be there by now
    revision: str = ""

    @property
    def shown(self) -> str:
        """The digest, or the URL without what may be a secret."""
        return self.digest or shown_url(self.url)


class ServerOrder(Struct, frozen=True):
    """The models of each server, and its resources."""

    models: dict[str, ShippedModel]  #: by name
    replicas: int = 0  #: workers of each model on each server; 0: as its manifest says
    settings: tuple[str, ...] = ()  #: ``NAME.KEY=VALUE``, as for ``servekit start --set``
    env: dict[str, str] = {}
    cpus: float = 1.0  #: set aside by Ray on the node
    gpus: float = 0.0
    port: int = 0  #: 0: a free one
    workers: int = 1  #: processes of models on each server, which share the CPUs

    @property
    def shown(self) -> "ServerOrder":
        """It without what may be a secret: values of variables, and parts of URLs."""
        return msgspec.structs.replace(
            self,
            models={name: without_secrets(model) for name, model in self.models.items()},
            settings=tuple(without_value(text) for text in self.settings),
            env=dict.fromkeys(self.env, HIDDEN),
        )


class DesiredState(Struct):
    """The goal of the controller, kept in Ray's key-value store."""

    order: ServerOrder
    minimum: int  #: servers
    maximum: int  #: equal to ``minimum`` without autoscaling
    target: int  #: servers, between the two

    def scaled(self, minimum: int, maximum: int) -> None:
        """Change the bounds, and the target with them."""
        self.minimum, self.maximum = minimum, maximum
        self.target = min(max(self.target, minimum), maximum)


class ServerStatus(Struct, frozen=True):
    """One server of a deployment."""

    name: str  #: the name of its actor
    state: str  #: ``waiting`` for resources, ``loading``, ``ready``, ``unready`` or ``leaving``
    url: str = ""  #: "" while it does not serve
    ray_node: str = ""  #: id of the Ray node
    models: dict[str, str] = {}  #: by name: the digest of the archive, or the URL as it is shown
    age_s: float = 0.0  #: since the controller asked for it
    pid: int = 0  #: of the server's supervisor, on its machine


class RollOperation(Struct):
    """A swap of one model, server by server."""

    model: str
    state: str = RUNNING  #: then ``done`` or ``failed``
    steps: list[str] = []  #: sentences for people, one for each server
    error: str = ""


class DeploymentStatus(Struct, frozen=True):
    """A deployment as its controller sees it."""

    name: str
    minimum: int
    maximum: int
    target: int  #: servers that it works towards
    order: ServerOrder
    servers: list[ServerStatus]
    operation: RollOperation | None = None  #: the last one
    controller_pid: int = 0  #: on its machine
    problem: str = ""  #: why the last server could not be started

    @property
    def ready(self) -> list[ServerStatus]:
        """The servers that get requests."""
        return [server for server in self.servers if server.state == "ready"]


def without_secrets(model: ShippedModel) -> ShippedModel:
    """Return *model* as people may see it."""
    return msgspec.structs.replace(model, url=shown_url(model.url)) if model.url else model


def without_value(setting: str) -> str:
    """Return ``NAME.KEY=VALUE``; the value is hidden if it has variables or options."""
    key, _, _ = setting.partition("=")
    words = re.findall(r"\w+", setting.partition(".")[2])
    return f"{key}={HIDDEN}" if {"env", "options"} & {*words} else setting


def plain(value: Struct) -> Any:
    """Return *value* as JSON has it."""
    return msgspec.to_builtins(value)
