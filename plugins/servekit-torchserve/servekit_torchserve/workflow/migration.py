# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit migrate`` about a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.extension import MigrationRow
from servekit_torchserve.workflow.archive import NODES, NodeSettings, read_workflow

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["explain_workflow"]

RETRIES = "retry = true under [worker], if a prediction can be made twice"


def explain_workflow(directory: Path) -> list[MigrationRow]:
    """Return a row for the name, each node, and each edge of the workflow in *directory*.

    :raises ArchiveError: its manifest or its specification is not valid.
    """
    spec = read_workflow(directory)
    rows = [MigrationRow(f"workflowName: {spec.name}", f'name = "{spec.name}"')]
    for node in spec.nodes:
        url, settings = spec.models.get(node), spec.settings.get(node) or NodeSettings()
        before = f"models: {node}: {url}" if url else f"function {node}"
        now = f"[stages.{node}] in {NODES}/{node}" if url else f"[stages.{node}]"
        size, workers = settings.batch_size, settings.min_workers
        rows.append(MigrationRow(before, now, f"batches of {size}, {workers} workers"))
    for node, following in spec.dag.items():
        rows += [MigrationRow(f"dag: {node}: {each}", "a step of pipeline") for each in following]
    rows.append(MigrationRow("retry-attempts", note=RETRIES))
    return rows
