# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit migrate`` about an archive of TorchServe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from servekit.extension import MigrationRow
from servekit_torchserve.archive import read_manifest
from servekit_torchserve.model_config import read_config
from servekit_torchserve.offer import describe_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from servekit_torchserve.archive import TorchManifest

__all__ = ["explain"]

#: keys of model-config.yaml to the keys of the offer that they become
KEPT: Final = {
    "minWorkers": "worker.replicas",
    "batchSize": "batching.max_batch_size",
    "maxBatchDelay": "batching.max_delay_ms",
    "responseTimeout": "worker.predict_timeout_s",
    "startupTimeout": "worker.load_timeout_s",
    "deviceType": "worker.env",
    "deviceIds": "worker.env",
}
SLOTS: Final = "slots of a service: admit, step, evict"
ORDER: Final = "requests of a client are not kept in order"
GONE: Final = {
    "maxWorkers": "replicas = { min = 1, max = 4 } in the settings of a deployment",
    "jobQueueSize": "queue, a setting of the server",
    "maxRetryTimeoutInSec": "a worker is tried again once a minute, without end",
    "clientTimeoutInMills": "X-Request-Timeout-Ms of a request",
    "useJobTicket": "",
    "asyncCommunication": "",
    "continuousBatching": SLOTS,
    "sequenceBatching": ORDER,
    "sequenceMaxIdleMSec": ORDER,
    "sequenceTimeoutMSec": ORDER,
    "maxSequenceJobQueueSize": ORDER,
    "maxNumSequence": ORDER,
    "parallelType": "ranks, in the settings of a deployment",
    "parallelLevel": "ranks, in the settings of a deployment",
    "torchrun": "ranks, in the settings of a deployment",
    "useVenv": "--install-requirements: an environment, shared by models with the same packages",
}
READ_BY_HANDLER: Final = "read by the handler: context.model_yaml_config"


def explain(directory: Path) -> list[MigrationRow] | None:
    """Return a row for each thing that the archive in *directory* says.

    :raises BootError: the archive is not for Python, or its configuration is not valid.
    """
    manifest, offer = read_manifest(directory), describe_model(directory)
    if manifest is None or offer is None:
        return None
    config = read_config(directory, manifest.model.config_file)
    return [*_model_rows(manifest, offer), *_config_rows(config, offer)]


def _model_rows(manifest: TorchManifest, offer: Mapping[str, Any]) -> Iterator[MigrationRow]:
    """Yield the rows of the manifest."""
    model = manifest.model
    if model.model_name:
        yield MigrationRow(f"modelName: {model.model_name}", f'name = "{model.model_name}"')
    yield MigrationRow(f"modelVersion: {model.model_version}", f'version = "{offer["version"]}"')
    service = f'service = "{offer["service"]}"'
    yield MigrationRow(f"handler: {model.handler}", service, "the handler is not changed")
    files = {"serializedFile": model.serialized_file, "modelFile": model.model_file}
    for key, name in files.items():
        if name:
            yield MigrationRow(f"{key}: {name}", name, "loaded by the handler")
    if model.requirements_file:
        is_there = "requirements" in offer
        now = f'requirements = "{model.requirements_file}"' if is_there else ""
        note = "checked at the start, installed with --install-requirements"
        yield MigrationRow(f"requirementsFile: {model.requirements_file}", now, note)


def _config_rows(config: Mapping[str, Any], offer: Mapping[str, Any]) -> Iterator[MigrationRow]:
    """Yield the rows of ``model-config.yaml``."""
    for key, value in config.items():
        before = f"{key}: {json.dumps(value, default=str)}"
        if key in KEPT:
            table, _, name = KEPT[key].partition(".")
            found = offer.get(table, {}).get(name)
            now = f"[{table}] {name} = {json.dumps(found)}" if found is not None else ""
            yield MigrationRow(before, now)
        elif key in GONE:
            yield MigrationRow(before, note=GONE[key])
        else:
            yield MigrationRow(before, "model-config.yaml", READ_BY_HANDLER)
