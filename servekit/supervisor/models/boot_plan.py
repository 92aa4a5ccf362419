# SPDX-License-Identifier: Apache-2.0
"""How the workers of a prepared model are started, and the first message to them."""

import os
from pathlib import Path

from servekit.ipc.control import Launch
from servekit.settings import Settings
from servekit.supervisor.models.routes import handed_on, named_routes
from servekit.supervisor.models.table_rows import public_manifest
from servekit.supervisor.os.environment import worker_environment
from servekit.supervisor.os.memory_directory import MEMORY
from servekit.supervisor.os.resources import usable_cores
from servekit.supervisor.os.user import find_user
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import worker_command

__all__ = ["boot_of", "launch_of"]


def boot_of(
    prepared: PreparedModel,
    stage: PreparedStage,
    settings: Settings,
    replica: Replica,
    replicas: int,
    total_replicas: int,
) -> Boot:
    """Return how the next worker of *replica* is started.

    :param replicas: of its stage.
    :param total_replicas: of all models; they share the cores.
    """
    threads = max(1, usable_cores() // max(1, total_replicas))
    launch = launch_of(
        prepared,
        stage,
        settings,
        threads,
        replica=replica.place,
        replicas=replicas,
        generation=replica.generation,
    )
    variables = stage.environments[replica.place % len(stage.environments)]
    user = find_user(prepared.user)
    command = worker_command(
        prepared.python,
        "#".join(filter(None, (prepared.label, stage.name, str(replica.index)))),
        worker_environment(
            os.environ, threads, variables, user, [*settings.pass_env, *prepared.pass_env]
        ),
        prepared.directory,
        user,
    )
    return Boot(launch, command, settings.load_timeout or stage.load_timeout_s)


def launch_of(
    prepared: PreparedModel,
    stage: PreparedStage,
    settings: Settings,
    threads: int,
    *,
    replica: int = 0,
    replicas: int = 0,
    generation: int = 0,
) -> Launch:
    """Return the first message to a worker of *stage*."""
    return Launch(
        directory=prepared.directory,
        manifest=stage.manifest,
        replica=replica,
        replicas=replicas or stage.replicas,
        generation=generation,
        threads=threads,
        max_batch_size=stage.max_batch_size,
        max_answer_bytes=settings.max_answer,
        arena_bytes=settings.arena,
        large_body_bytes=settings.large_body,
        assets=prepared.assets,
        memory_bytes=settings.worker_memory,
        files=settings.worker_files,
        log_format=settings.log_format,
        is_dev=settings.dev,
        log_level=settings.log_level,
        stage=stage.name,
        colocated={each.name: each.manifest for each in stage.colocated},
        handed_on=handed_on(
            named_routes(prepared.name, public_manifest(prepared.manifest)),
            [stage.name, *(each.name for each in stage.colocated)],
        ),
        is_secret=Path(prepared.directory).is_relative_to(MEMORY),
    )
