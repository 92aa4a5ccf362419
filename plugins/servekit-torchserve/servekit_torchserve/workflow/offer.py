# SPDX-License-Identifier: Apache-2.0
"""Describes a workflow as a ``model.toml`` would: its nodes are stages of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit_torchserve.workflow.archive import NODES, NodeSettings, read_workflow

if TYPE_CHECKING:
    from pathlib import Path

    from servekit_torchserve.workflow.archive import WorkflowSpec

__all__ = ["describe_workflow"]

JOIN: Final = "servekit-join"  #: the stage that makes one response of several leaves
FUNCTION_TIMEOUT_S: Final = 10.0
REQUEST: Final = "request"


def describe_workflow(directory: Path) -> dict[str, Any]:
    """Return the keys of a manifest for the workflow that is unpacked in *directory*.

    :raises ArchiveError: its manifest or its specification is not valid.
    """
    spec = read_workflow(directory)
    stages = {node: _stage(spec, node) for node in spec.nodes}
    steps = [{"stage": node, "inputs": spec.before(node) or [REQUEST]} for node in spec.nodes]
    if len(spec.leaves) > 1:
        stages[JOIN] = {"service": "torchserve-join"}
        steps.append({"stage": JOIN, "inputs": spec.leaves})
    return {"name": spec.name, "stages": stages, "pipeline": steps}


def _stage(spec: WorkflowSpec, node: str) -> dict[str, Any]:
    """Return the table of a stage."""
    settings = spec.settings.get(node) or NodeSettings()
    options: dict[str, Any] = {
        "is_first": not spec.before(node),
        "is_last": [node] == spec.leaves,
    }
    if node in spec.models:
        options["directory"] = f"{NODES}/{node}"
    else:
        options["function"] = f"{spec.handler}:{node}"
    return {
        "service": "torchserve-node" if node in spec.models else "torchserve-function",
        "options": options,
        "batching": {
            "max_batch_size": max(1, settings.batch_size),
            "max_delay_ms": settings.max_batch_delay if settings.batch_size > 1 else 0,
        },
        "worker": {
            "replicas": max(1, settings.min_workers),
            "predict_timeout_s": settings.timeout_ms / 1000 or FUNCTION_TIMEOUT_S,
        },
    }
