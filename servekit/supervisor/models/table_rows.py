# SPDX-License-Identifier: Apache-2.0
"""The rows of the routing table that a model's manifest and interfaces make."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from servekit.ipc.table import Interface, ModelRow, StageRow
from servekit.settings import Settings
from servekit.supervisor.models.routes import named_routes, routes_of_endpoints
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage

__all__ = ["prepared_row", "public_manifest", "unprepared_row"]

#: keys of the manifest that no front-end needs
HIDDEN_KEYS = ("files", "created_by", "format", "assets", "warm_up")


def unprepared_row(name: str) -> ModelRow:
    """Return the row of a model that has not been prepared."""
    return ModelRow(name, "", "", [], 1, 0.0, 0.0, 1)


def prepared_row(
    prepared: PreparedModel, settings: Settings, interfaces: Mapping[str, Interface]
) -> ModelRow:
    """Return the row of a model, without its replicas.

    :param interfaces: by stage, as far as they are known; the name of an only stage is "".
    """
    first, manifest = prepared.stages[0], public_manifest(prepared.manifest)
    named = named_routes(prepared.name, manifest)
    return ModelRow(
        name=prepared.name,
        version=prepared.version,
        description=prepared.description,
        replicas=[],
        max_batch_size=first.max_batch_size,
        max_delay_s=first.max_delay_s,
        max_concurrency=first.max_concurrency,
        max_batch_cost=first.max_batch_cost,
        predict_timeout_s=settings.predict_timeout or first.predict_timeout_s,
        capacity=settings.queue,
        may_retry=prepared.may_retry,
        manifest=manifest,
        interface=interfaces.get(first.name),
        stages=[_stage_row(stage, settings, interfaces) for stage in prepared.stages if stage.name],
        routes=[*named, *routes_of_endpoints(prepared.name, manifest, interfaces)],
        settings=prepared.settings,
        may_sleep=prepared.may_sleep,
        directory=prepared.directory,
    )


def _stage_row(
    stage: PreparedStage, settings: Settings, interfaces: Mapping[str, Interface]
) -> StageRow:
    return StageRow(
        name=stage.name,
        max_batch_size=stage.max_batch_size,
        max_delay_s=stage.max_delay_s,
        max_concurrency=stage.max_concurrency,
        max_batch_cost=stage.max_batch_cost,
        predict_timeout_s=settings.predict_timeout or stage.predict_timeout_s,
        interface=interfaces.get(stage.name),
        colocated={each.name: interfaces.get(each.name) for each in stage.colocated},
    )


@lru_cache(maxsize=256)  # rows are made at every change, and manifests can be long
def public_manifest(manifest: bytes) -> dict[str, Any]:
    """Return the keys of a manifest that the front-ends get."""
    decoded: dict[str, Any] = msgspec.json.decode(manifest)
    return {key: value for key, value in decoded.items() if key not in HIDDEN_KEYS}
