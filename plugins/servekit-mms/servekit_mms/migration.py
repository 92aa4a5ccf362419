# SPDX-License-Identifier: Apache-2.0
"""The report of ``servekit migrate`` about an archive of MMS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit.extension import MigrationRow
from servekit_mms.archives import HandlerArchive, read_archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servekit_mms.archives import LegacyArchive

__all__ = ["explain"]


def explain(directory: Path) -> list[MigrationRow] | None:
    """Return a row for each thing that the archive in *directory* says.

    :raises BootError: it cannot be served.
    """
    archive = read_archive(directory)
    if archive is None:
        return None
    rows = _of_handler(archive) if isinstance(archive, HandlerArchive) else _of_legacy(archive)
    return list(rows)


def _of_legacy(archive: LegacyArchive) -> Iterator[MigrationRow]:
    model, signed = archive.model, archive.signature
    yield MigrationRow(f"Model-Name {model.name}", f'name = "{model.name}"')
    yield MigrationRow(f"Service {model.service}", 'service = "mms"', "runs unchanged")
    names = ", ".join(each.data_name for each in signed.inputs)
    note = "read from signature.json when the model is loaded"
    yield MigrationRow(f"inputs {names} ({signed.input_type})", "parts of /MODEL/predict", note)
    yield MigrationRow(f"output_type {signed.output_type}", '{"prediction": ...}', note)
    if archive.weights:
        note = "a service class that leaves them to MXNet is refused; convert them to ONNX"
        yield MigrationRow(", ".join(archive.weights), "files of the model", note)
    if (archive.directory / "synset.txt").is_file():
        yield MigrationRow("synset.txt", "labels of the service class")
    yield MigrationRow("Engine", note="MXNet is not needed")


def _of_handler(archive: HandlerArchive) -> Iterator[MigrationRow]:
    model = archive.model
    yield MigrationRow(f"modelName {model.model_name}", f'name = "{model.model_name}"')
    yield MigrationRow(f"handler {model.handler}", 'service = "mms"', "runs unchanged")
    if model.model_version:
        yield MigrationRow(
            f"modelVersion {model.model_version}", f'version = "{model.model_version}"'
        )
    yield MigrationRow("responses", "envelope = false", "what the handler returns is the body")
    note = "requests in one call; in MMS it was given when the model was registered"
    yield MigrationRow("batch_size", "[batching] max_batch_size = 1", note)
