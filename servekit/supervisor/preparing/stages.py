# SPDX-License-Identifier: Apache-2.0
"""The workers of each stage, as the manifest describes them. Runs in: prepare child."""

import dataclasses

from servekit_archiver import Manifest

from servekit.ipc.batches import PREDICT
from servekit.supervisor.preparing.messages import PreparedStage

__all__ = ["stages_of"]


def stages_of(manifest: Manifest) -> list[PreparedStage]:
    """Return the stages that have workers; a stage beside another is part of that one."""
    if not manifest.stages:
        own = manifest.every_stage[PREDICT]
        return [_stage("", dataclasses.replace(manifest, examples=own.examples))]
    found = {name: _stage(name, manifest.of_stage(name)) for name in manifest.every_stage}
    for name, stage in manifest.stages.items():
        if stage.beside is not None:
            found[stage.beside].beside.append(found.pop(name))
    return list(found.values())


def _stage(name: str, manifest: Manifest) -> PreparedStage:
    worker, batching = manifest.worker, manifest.batching
    tables = worker.env if isinstance(worker.env, tuple) else (worker.env,)
    return PreparedStage(
        name=name,
        manifest=manifest.to_json(),
        replicas=worker.replicas,
        max_batch_size=batching.max_batch_size,
        max_delay_s=batching.max_delay_ms / 1000,
        predict_timeout_s=worker.predict_timeout_s,
        load_timeout_s=worker.load_timeout_s,
        environments=[dict(table) for table in tables],
    )
