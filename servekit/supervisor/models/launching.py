# SPDX-License-Identifier: Apache-2.0
"""What a prepared model becomes: a command for its workers, a row for the front-ends."""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from servekit.ipc.control import Launch
from servekit.ipc.table import Interface, ModelRow, StageRow
from servekit.settings import Settings
from servekit.supervisor.models.routes import handed_on, named_routes, routes_of_endpoints
from servekit.supervisor.os.environment import usable_cores, worker_environment
from servekit.supervisor.os.user import find_user
from servekit.supervisor.preparing.prepared import Prepared, PreparedStage
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import worker_command

__all__ = ["boot_of", "label_of", "launch_of", "prepared_row", "unprepared_row"]

#: of the manifest: nobody routes by them
HIDDEN_KEYS = ("files", "created_by", "format", "assets", "warm_up")


def boot_of(
    prepared: Prepared,
    stage: PreparedStage,
    settings: Settings,
    replica: Replica,
    total_replicas: int,
) -> Boot:
    """Return what the next worker of *replica* is started with.

    :param total_replicas: of all models; they share the cores.
    """
    threads = max(1, usable_cores() // max(1, total_replicas))
    launch = launch_of(
        prepared, stage, settings, threads, replica=replica.place, generation=replica.generation
    )
    variables = stage.environments[replica.place % len(stage.environments)]
    user = find_user(prepared.user)
    command = worker_command(
        prepared.python,
        "#".join(filter(None, (label_of(prepared), stage.name, str(replica.index)))),
        worker_environment(os.environ, threads, variables, user, settings.pass_env),
        prepared.directory,
        user,
    )
    return Boot(launch, command, settings.load_timeout or stage.load_timeout_s)


def launch_of(
    prepared: Prepared,
    stage: PreparedStage,
    settings: Settings,
    threads: int,
    *,
    replica: int = 0,
    generation: int = 0,
) -> Launch:
    """Return what a worker of *stage* is told."""
    return Launch(
        directory=prepared.directory,
        manifest=stage.manifest,
        replica=replica,
        replicas=settings.replicas or stage.replicas,
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
        beside={each.name: each.manifest for each in stage.beside},
        handed_on=handed_on(
            named_routes(prepared.name, _public_keys(prepared.manifest)),
            [stage.name, *(each.name for each in stage.beside)],
        ),
    )


def label_of(prepared: Prepared) -> str:
    """Return name and version."""
    return f"{prepared.name}/{prepared.version}"


def unprepared_row(name: str) -> ModelRow:
    """Return the row of a model of which only the name is known."""
    return ModelRow(name, "", "", [], 1, 0.0, 0.0, 1)


def prepared_row(
    prepared: Prepared, settings: Settings, interfaces: Mapping[str, Interface]
) -> ModelRow:
    """Return the row of a model without its replicas.

    :param interfaces: of the stages that have been ready; that of the only one is nameless.
    """
    first, manifest = prepared.stages[0], _public_keys(prepared.manifest)
    named = named_routes(prepared.name, manifest)
    return ModelRow(
        name=prepared.name,
        version=prepared.version,
        description=prepared.description,
        replicas=[],
        max_batch_size=first.max_batch_size,
        max_delay_s=first.max_delay_s,
        predict_timeout_s=settings.predict_timeout or first.predict_timeout_s,
        capacity=settings.queue,
        may_retry=prepared.may_retry,
        manifest=manifest,
        interface=interfaces.get(first.name),
        stages=[_stage_row(stage, settings, interfaces) for stage in prepared.stages if stage.name],
        routes=[*named, *routes_of_endpoints(prepared.name, interfaces)],
    )


def _stage_row(
    stage: PreparedStage, settings: Settings, interfaces: Mapping[str, Interface]
) -> StageRow:
    return StageRow(
        name=stage.name,
        max_batch_size=stage.max_batch_size,
        max_delay_s=stage.max_delay_s,
        predict_timeout_s=settings.predict_timeout or stage.predict_timeout_s,
        interface=interfaces.get(stage.name),
        beside={each.name: interfaces.get(each.name) for each in stage.beside},
    )


@lru_cache(maxsize=256)  # rows are made anew at every change, and manifests can be long
def _public_keys(manifest: bytes) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(manifest)
    return {key: value for key, value in decoded.items() if key not in HIDDEN_KEYS}
