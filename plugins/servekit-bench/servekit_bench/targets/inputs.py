# SPDX-License-Identifier: Apache-2.0
"""Bodies to send: files of the caller, packaged examples, examples of an API description."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from servekit_archiver import ArchiveError, Manifest, load_directory, open_archive

from servekit.errors import StartupError
from servekit.types.file_types import media_type_of

__all__ = ["BodyInput", "described_inputs", "file_inputs", "model_paths", "packaged_inputs"]

JSON: Final = "application/json"
LINES: Final = (".jsonl", ".ndjson")


class BodyInput(msgspec.Struct, frozen=True):
    """One body, and its media type."""

    body: bytes
    media_type: str


def file_inputs(paths: Sequence[Path], media_type: str) -> list[BodyInput]:
    """Return the content of files, of all files of directories, and of each line of JSON Lines.

    :param media_type: of all files; ``""`` goes by their suffixes.
    :raises StartupError: a file cannot be read, or there are none.
    """
    try:
        found = [each for path in paths for file in _files(path) for each in _read(file)]
    except OSError as error:
        raise StartupError(f"{error.filename}: {error.strerror}") from error
    if not found:
        raise StartupError(f"{paths[0]}: it has no inputs")
    return [BodyInput(each.body, media_type) for each in found] if media_type else found


def packaged_inputs(model: Path) -> list[BodyInput]:
    """Return the examples of an archive or a model directory; none of those in other formats."""
    try:
        if model.is_dir():
            manifest = load_directory(model)
            return list(_examples(manifest, lambda name: (model / name).read_bytes()))
        with open_archive(model) as archive:
            return list(_examples(archive.manifest, archive.read))
    except (ArchiveError, OSError):  # the server says what is wrong with it, or serves it
        return []


def described_inputs(document: Any, path: str) -> list[BodyInput]:
    """Return the JSON inputs that an OpenAPI 3 document shows for a POST to *path*."""
    content = document
    for name in ("paths", path.partition("?")[0], "post", "requestBody", "content"):
        content = content.get(name, {}) if isinstance(content, dict) else {}
    for media_type, body in content.items():
        examples = body.get("examples", {})
        values = [each["value"] for each in examples.values() if "value" in each]
        if "json" in media_type and values:
            return [BodyInput(msgspec.json.encode(value), media_type) for value in values]
    return []


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.is_file() and each.name[0] != ".")


def _read(file: Path) -> Iterator[BodyInput]:
    content = file.read_bytes()
    if file.suffix in LINES:
        yield from (BodyInput(line, JSON) for line in content.splitlines() if line.strip())
    else:
        yield BodyInput(content, media_type_of(file.name))


def _examples(manifest: Manifest, read: Callable[[str], bytes]) -> Iterator[BodyInput]:
    for example in manifest.examples:
        if example.input_file is None:
            yield BodyInput(msgspec.json.encode(example.input), JSON)
        else:
            media_type = example.content_type or media_type_of(example.input_file)
            yield BodyInput(read(example.input_file), media_type)


def model_paths(root: Any) -> Mapping[str, str]:
    """Return model name to path, from the answer of a server to ``GET /``."""
    models = root.get("models") if isinstance(root, dict) else None
    return models if isinstance(models, dict) else {}
