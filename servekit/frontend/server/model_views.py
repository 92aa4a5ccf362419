# SPDX-License-Identifier: Apache-2.0
"""Models and their statistics, as plugins see them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from servekit.description.routes import predict_interface
from servekit.extension.models import ModelStatistics, ModelView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.ipc.model_counters import VersionCounts
    from servekit.ipc.table import ModelRow, Table

__all__ = ["models_of", "statistics_of"]


def statistics_of(counts: VersionCounts) -> ModelStatistics:
    """Return the sums of *counts* over the stages."""
    stages = counts.stages.values()
    return ModelStatistics(
        statuses=counts.statuses,
        response_s=counts.response_s,
        inputs=sum(stage.tasks for stage in stages),
        batches=sum(stage.batches for stage in stages),
        queue_s=sum(stage.queue_s for stage in stages),
        predict_s=sum(stage.predict_s for stage in stages),
        failed_s=counts.failed_s,
        decode_s=sum(stage.decode_s for stage in stages),
        encode_s=sum(stage.encode_s for stage in stages),
        durations=counts.durations,
        waiting=counts.waiting,
        running=counts.running,
        last_batch_at=counts.last_batch_at,
    )


def models_of(table: Table) -> dict[str, ModelView]:
    """Return the models of *table* by name."""
    return {row.name: _view_of(row, table.models) for row in table.models}


def _view_of(row: ModelRow, models: Sequence[ModelRow]) -> ModelView:
    others = {each.version: _version_of(each, row.name, models) for each in row.versions}
    view = replace(_version_of(row, row.name, models), others=others)
    for alias, version in row.traffic.aliases.items():
        if (found := view.find_version(version)) is not None:
            others.setdefault(alias, found)
    return view


def _version_of(row: ModelRow, name: str, models: Sequence[ModelRow]) -> ModelView:
    return ModelView(
        name=name,
        version=row.version,
        interface=predict_interface(row, models),
        max_batch_size=row.max_batch_size,
        replicas=Counter(replica.stage for replica in row.replicas),
        directory=Path(row.directory) if row.directory else None,
        source=next((str(each.value) for each in row.settings if each.name == "path"), ""),
    )
