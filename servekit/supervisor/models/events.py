# SPDX-License-Identifier: Apache-2.0
"""Makes the events of a model and its workers, for reports and plugins."""

from time import time
from typing import Any

from servekit.extension.events import ModelLoaded, ModelUnloaded, WorkerExited, WorkerReady
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.os.exits import signal_name
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.replicas.worker import Exit

__all__ = ["model_loaded", "model_unloaded", "worker_exited", "worker_ready"]


def _version(prepared: PreparedModel) -> dict[str, Any]:
    return {"time_s": time(), "model": prepared.name, "version": prepared.version}


def _replica(replica: Replica) -> dict[str, Any]:
    place = {"stage": replica.stage, "replica": replica.index}
    return place | {"generation": replica.generation}


def model_loaded(
    prepared: PreparedModel, replicas: int, load_s: float, replaces: str
) -> ModelLoaded:
    """A version can answer; *replaces* is the version that served before it, or ""."""
    return ModelLoaded(
        **_version(prepared),
        digest=prepared.digest,
        source=prepared.source,
        replicas=replicas,
        load_s=load_s,
        replaces=replaces,
    )


def model_unloaded(prepared: PreparedModel, served_s: float, reason: str) -> ModelUnloaded:
    """The last worker of a version is gone."""
    version, digest = _version(prepared), prepared.digest
    return ModelUnloaded(**version, digest=digest, served_s=served_s, reason=reason)


def worker_ready(prepared: PreparedModel, replica: Replica, load_s: float) -> WorkerReady:
    """A worker has loaded its service."""
    pid = replica.pid or 0
    return WorkerReady(**_version(prepared), **_replica(replica), pid=pid, load_s=load_s)


def worker_exited(
    prepared: PreparedModel, replica: Replica, ended: Exit, wait: Wait | None, *, is_asked: bool
) -> WorkerExited:
    """A worker is gone.

    :param wait: until the next worker is started, if there will be one.
    :param is_asked: it was asked to stop.
    """
    return WorkerExited(
        **_version(prepared),
        **_replica(replica),
        pid=ended.pid,
        exit_code=ended.exit_code,
        signal=signal_name(ended.exit_code),
        cause="stopped" if is_asked else ended.cause,
        reason=ended.reason,
        lived_s=ended.lived_s,
        served_s=ended.served_s,
        restart_s=None if wait is None else wait.delay_s,
        has_given_up=wait is not None and wait.has_given_up,
        last_lines=list(ended.last_lines),
        source=prepared.source,
    )
