# SPDX-License-Identifier: Apache-2.0
"""Makes the events that the hooks are told of a model and its workers."""

from time import time

from servekit.extension.events import ModelLoaded, ModelUnloaded, WorkerExited, WorkerReady
from servekit.supervisor.os.backoff import Wait
from servekit.supervisor.os.exits import signal_name
from servekit.supervisor.preparing.messages import PreparedModel
from servekit.supervisor.replicas.replica import Replica
from servekit.supervisor.replicas.worker import Exit

__all__ = ["model_loaded", "model_unloaded", "worker_exited", "worker_ready"]


def model_loaded(
    prepared: PreparedModel, replicas: int, load_s: float, replaces: str
) -> ModelLoaded:
    """A version can answer; *replaces* is the version that served before it, or ""."""
    return ModelLoaded(
        time_s=time(),
        model=prepared.name,
        version=prepared.version,
        digest=prepared.digest,
        source=prepared.source,
        replicas=replicas,
        load_s=load_s,
        replaces=replaces,
    )


def model_unloaded(prepared: PreparedModel, served_s: float, reason: str) -> ModelUnloaded:
    """The last worker of a version is gone."""
    return ModelUnloaded(
        time_s=time(),
        model=prepared.name,
        version=prepared.version,
        digest=prepared.digest,
        served_s=served_s,
        reason=reason,
    )


def worker_ready(prepared: PreparedModel, replica: Replica, load_s: float) -> WorkerReady:
    """A worker has loaded its service."""
    return WorkerReady(
        time_s=time(),
        model=prepared.name,
        version=prepared.version,
        stage=replica.stage,
        replica=replica.index,
        generation=replica.generation,
        pid=replica.pid or 0,
        load_s=load_s,
    )


def worker_exited(
    prepared: PreparedModel, replica: Replica, ended: Exit, wait: Wait | None, *, is_asked: bool
) -> WorkerExited:
    """A worker is gone, because *is_asked* it to stop or not; *wait* is before the next one."""
    return WorkerExited(
        time_s=time(),
        model=prepared.name,
        version=prepared.version,
        stage=replica.stage,
        replica=replica.index,
        generation=replica.generation,
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
    )
