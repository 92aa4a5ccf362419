# SPDX-License-Identifier: Apache-2.0
"""The contents of an archive, as ``inspect`` prints them."""

import json
from collections.abc import Iterator
from typing import Any

from servekit_archiver.archive.reader import Archive
from servekit_archiver.cli.output import human_bytes
from servekit_archiver.counting import counted
from servekit_archiver.manifest import Manifest
from servekit_archiver.manifest.assets import Asset
from servekit_archiver.manifest.stages import Stage
from servekit_archiver.manifest.tables import Tensor
from servekit_archiver.names import SIGNATURE
from servekit_archiver.zip.format import STORED

__all__ = ["as_json", "as_text"]


def as_text(archive: Archive) -> Iterator[str]:
    """Yield the lines of what is in *archive*: its manifest, then its files."""
    yield from (f"{label:<12}{value}" for label, value in _describe(archive))
    yield ""
    yield from _file_table(archive)


def as_json(archive: Archive) -> dict[str, Any]:
    """Return what is in *archive*, for programs."""
    return {
        "path": str(archive.path),
        "size": archive.size,
        "digest": archive.digest,
        "is_signed": archive.signature_entry is not None,
        "manifest": archive.manifest.to_mapping(),
    }


def _describe(archive: Archive) -> Iterator[tuple[str, str]]:
    manifest = archive.manifest
    yield "name", manifest.name
    yield "version", manifest.version
    if manifest.service is not None:
        yield "service", manifest.service
    texts = {"about": manifest.description, "license": manifest.license}
    texts["needs"] = manifest.requirements or ""
    texts["lock"] = _describe_lock(manifest)
    yield from ((label, " ".join(text.split())) for label, text in texts.items() if text)
    yield from _describe_signature(manifest)
    for name, stage in manifest.every_stage.items():
        if manifest.stages:
            yield "stage", f"{name}: {stage.service}{_host_of(stage)}"
        if stage.host is None:
            yield from _describe_processes(stage)
    yield from _describe_routes(manifest)
    yield from (("asset", _describe_asset(*item)) for item in sorted(manifest.assets.items()))
    if manifest.options:
        yield "options", json.dumps(manifest.to_mapping()["options"])
    if manifest.examples:
        yield "examples", str(len(manifest.examples))
    yield "created by", f"{manifest.created_by}, format {manifest.format}"
    yield "size", f"{human_bytes(archive.size)}, unpacked {human_bytes(archive.unpacked_size)}"
    yield "digest", archive.digest
    if archive.signature_entry:
        yield "signature", f"{SIGNATURE}, not checked (see verify)"


def _describe_lock(manifest: Manifest) -> str:
    lock = manifest.lock
    if lock is None:
        return ""
    text = f"{lock.file} for Python {lock.python}"
    if lock.wheels is None:
        return f"{text}, without wheels"
    packed = [
        info.size for name, info in manifest.files.items() if name.startswith(f"{lock.wheels}/")
    ]
    return f"{text}, {counted(len(packed), 'wheel')}, {human_bytes(sum(packed))}"


def _describe_processes(stage: Stage) -> Iterator[tuple[str, str]]:
    batching, worker = stage.batching, stage.worker
    yield "batching", f"up to {batching.max_batch_size}, {batching.max_delay_ms} ms delay"
    if batching.cost is not None:
        yield "", f"cost: {batching.cost}, up to {batching.max_batch_cost:.12g}"
    limits = f"predict {worker.predict_timeout_s} s, load {worker.load_timeout_s} s"
    ranks = f" of {worker.ranks} ranks" if worker.ranks > 1 else ""
    yield "worker", f"replicas {worker.replicas}{ranks}, {limits}"
    for table in worker.env if isinstance(worker.env, tuple) else (worker.env,):
        yield from (("", f"{key}={value!r}") for key, value in sorted(table.items()))


def _host_of(stage: Stage) -> str:
    return f" (in the workers of {stage.host})" if stage.host else ""


def _describe_routes(manifest: Manifest) -> Iterator[tuple[str, str]]:
    routes = {f"/{manifest.name}/predict": manifest.pipeline}
    routes |= {path: route.steps for path, route in manifest.routes.items()}
    for path, steps in routes.items():
        if steps:
            yield "route", f"{path}: {', '.join(step.label for step in steps)}"


def _describe_asset(name: str, asset: Asset) -> str:
    size = f", {human_bytes(asset.size)}" if asset.size is not None else ""
    return f"{name}: {asset.url or 'made by store_assets'}{size}"


def _describe_signature(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if manifest.signature is not None:
        for label, tensors in (
            ("input", manifest.signature.inputs),
            ("output", manifest.signature.outputs),
        ):
            yield from ((label, _describe_tensor(tensor)) for tensor in tensors)


def _describe_tensor(tensor: Tensor) -> str:
    axes = ", ".join("any" if size == -1 else str(size) for size in tensor.shape)
    return f"{tensor.name}  {tensor.dtype}[{axes}]"


def _file_table(archive: Archive) -> Iterator[str]:
    files = archive.manifest.files
    width = max(4, *(len(name) for name in files)) if files else 4
    yield f"{'file':<{width}}  {'bytes':>14}  {'packed':>14}  {'':<8}  sha256"
    for name, info in sorted(files.items()):
        entry = archive.entries[name]
        how = "stored" if entry.method == STORED else "deflated"
        digest = info.sha256[:12]
        yield f"{name:<{width}}  {info.size:>14,}  {entry.packed_size:>14,}  {how:<8}  {digest}"
