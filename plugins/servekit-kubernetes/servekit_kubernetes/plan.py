# SPDX-License-Identifier: Apache-2.0
"""The image and the options that the manifests are written from."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from servekit.settings import Settings, load_settings

__all__ = ["DRAIN_DELAY_S", "GRPC", "SPARE_S", "ImageFacts", "KubePlan", "Range"]

GRPC = "SERVEKIT_PLUGIN_OIP_GRPC"  #: the variable with the address of gRPC
SPARE_S = 5  #: after the grace period, for the processes to end
DRAIN_DELAY_S = 5  #: until the last proxy of a cluster knows that a pod is going away
START_SPARE_S = 30  #: for the server itself to start, beside the load of its models
FETCH_S = 3600  #: for assets that are fetched at the start


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """The facts of an image that ``servekit dockerfile --json`` prints."""

    name: str  #: as a DNS label
    tag: str  #: ``digits:1.0``
    workers: int  #: worker processes in a container
    load_timeout_s: float  #: longest load of one of its models
    fetches_at_start: bool  #: a container fetches assets before it serves
    port: int
    user_id: int
    cache_dir: str


@dataclass(frozen=True, slots=True)
class Range:
    """Least and most replicas."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePlan:
    """One deployment."""

    image: ImageFacts
    name: str
    namespace: str
    replicas: int
    scaling: Range
    queue_time_s: float  #: more replicas are added while requests wait longer than this
    prometheus: str  #: its URL, for KEDA
    memory_mib: int | None  #: of a pod; ``None`` if it was not measured
    cpus: str
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)  #: settings of the server

    @property
    def every_env(self) -> dict[str, str]:
        """The variables of the container."""
        return {"SERVEKIT_DRAIN_DELAY": str(DRAIN_DELAY_S)} | dict(self.env)

    @property
    def settings(self) -> Settings:
        """The settings of the server, as the variables give them.

        :raises SettingsError: an unknown setting, or a value out of range.
        """
        return load_settings({}, environment=self.every_env)

    @property
    def stop_s(self) -> int:
        """How long a pod may take to end: the delay, the grace period, and some to spare."""
        return math.ceil(self.settings.drain_delay + self.settings.grace) + SPARE_S

    @property
    def start_s(self) -> int:
        """How long a pod may take until its models are ready, at most."""
        load_s = self.settings.load_timeout or self.image.load_timeout_s
        return math.ceil(load_s) + self.start_spare_s

    @property
    def start_spare_s(self) -> int:
        """The time that a start takes beside the load of the models."""
        return START_SPARE_S + (FETCH_S if self.image.fetches_at_start else 0)

    @property
    def ports(self) -> dict[str, int]:
        """The ports of a pod by name: HTTP, and gRPC if a variable has servekit-oip listen."""
        port = self.env.get(GRPC, "").rpartition(":")[2]
        return {"http": self.image.port} | ({"grpc": int(port)} if port.isdecimal() else {})

    @property
    def version(self) -> str:
        """The tag of the image, as the value of a label."""
        digest_less = self.image.tag.partition("@")[0]
        text = digest_less.rpartition(":")[2]
        return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")

    @property
    def resources(self) -> dict[str, dict[str, str]]:
        """Requests and limits of the container; no limit of CPUs, which would only delay it."""
        requests, limits = {"cpu": self.cpus}, dict[str, str]()
        if self.memory_mib is not None:
            requests["memory"] = limits["memory"] = f"{self.memory_mib}Mi"
        if self.gpus:
            limits["nvidia.com/gpu"] = str(self.gpus)
        return {"requests": requests} | ({"limits": limits} if limits else {})
