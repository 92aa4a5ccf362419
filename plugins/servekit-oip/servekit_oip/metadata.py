# SPDX-License-Identifier: Apache-2.0
"""Descriptions of the server and of its models, as mappings; for all transports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import servekit
from servekit_oip.signature import model_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from servekit.extension import ModelStatistics, ModelView
    from servekit_oip.signature import ModelTensor

__all__ = ["model_config", "model_metadata", "model_statistics", "server_metadata", "versions_of"]

SERVER: Final = "triton"  #: clients of Triton compare it
PLATFORM: Final = "servekit"
EXTENSIONS: Final = (
    *("classification", "model_repository", "model_configuration", "binary_tensor_data"),
    *("parameters", "statistics", "generate"),
)
NANOSECONDS: Final = 1e9
MILLISECONDS: Final = 1e3


def server_metadata() -> dict[str, Any]:
    """Return the answer to ``GET /v2``."""
    return {"name": SERVER, "version": servekit.__version__, "extensions": EXTENSIONS}


def versions_of(model: ModelView) -> list[str]:
    """Return the loaded versions of a model, the default one first.

    :param model: by its default version.
    """
    return list(dict.fromkeys([model.version, *(each.version for each in model.others.values())]))


def model_metadata(model: ModelView, versions: Iterable[str]) -> dict[str, Any]:
    """Return the tensors of *model*, which has been loaded at least once."""
    tensors = model_tensors(model)
    return {
        "name": model.name,
        "versions": list(versions),
        "platform": PLATFORM,
        "inputs": [_tensor(spec) for spec in tensors.inputs.values()],
        "outputs": [_tensor(spec) for spec in tensors.outputs.values()],
    }


def _tensor(spec: ModelTensor) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": spec.batch_shape}


def model_config(model: ModelView) -> dict[str, Any]:
    """Return the configuration of *model* as Triton shows it, with what has a meaning here.

    :param model: has been loaded at least once.
    """
    tensors = model_tensors(model)
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 1 if tensors.streams else model.max_batch_size,
        "input": [_configured(spec) for spec in tensors.inputs.values()],
        "output": [_configured(spec) for spec in tensors.outputs.values()],
        "instance_group": [
            {"name": f"{model.name}_{place}", "kind": "KIND_CPU", "count": count}
            for place, count in enumerate(model.replicas.values())
        ],
        "dynamic_batching": {},
        "parameters": {},
        "model_transaction_policy": {"decoupled": tensors.streams},
    }


def _configured(spec: ModelTensor) -> dict[str, Any]:
    dims = list(spec.shape)
    found: dict[str, Any] = {"name": spec.name, "data_type": spec.datatype.in_config, "dims": dims}
    if not dims:  # a configuration has at least one dimension
        found |= {"dims": [1], "reshape": {"shape": []}}
    return found


def model_statistics(model: ModelView, counted: ModelStatistics) -> dict[str, Any]:
    """Return the statistics of one version of a model; durations are in nanoseconds."""
    good = sum(count for status, count in counted.statuses.items() if status < 400)
    bad = sum(counted.statuses.values()) - good
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": round(counted.last_batch_at * MILLISECONDS),
        "inference_count": counted.inputs,
        "execution_count": counted.batches,
        "inference_stats": {
            "success": _times(good, counted.response_s),
            "fail": _times(bad, counted.failed_s),
            "queue": _times(counted.batches, counted.queue_s),
            "compute_input": _times(counted.batches, counted.decode_s),
            "compute_infer": _times(counted.batches, counted.predict_s),
            "compute_output": _times(counted.batches, counted.encode_s),
            "cache_hit": _times(0, 0.0),
            "cache_miss": _times(0, 0.0),
        },
        "batch_stats": [],
        "memory_usage": [],
        "response_stats": {},
    }


def _times(count: int, total_s: float) -> dict[str, int]:
    return {"count": count, "ns": round(total_s * NANOSECONDS)}
