# SPDX-License-Identifier: Apache-2.0
"""Writes a model directory that can be built and served, to be changed step by step."""

from importlib.resources import files
from pathlib import Path

from servekit_archiver.directory.model_toml import MODEL_TOML, manifest_from_toml, parse
from servekit_archiver.errors import ArchiveError, ManifestError, refuse_os_errors

__all__ = ["scaffold"]

NAMES = (MODEL_TOML, "service.py", "README.md")
PLACEHOLDER = "hello"


def scaffold(directory: str | Path, name: str | None = None) -> list[Path]:
    """Write ``model.toml``, ``service.py`` and a README into *directory*; return their paths.

    :param name: of the model; default: the directory's own.
    :raises ArchiveError: a file already exists, or the name is not one a model may have.
    """
    directory = Path(directory)
    model = name if name is not None else directory.resolve().name
    texts = {file: _render(file, model) for file in NAMES}
    try:
        manifest_from_toml(parse(texts[MODEL_TOML]), name=model)
    except ManifestError as error:
        hint = "" if name is not None else "; give another with --name"
        raise ArchiveError(f"{error.problems[0]}{hint}") from None
    with refuse_os_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for file in NAMES:
            if (directory / file).exists():
                raise ArchiveError(f"{directory / file}: already exists")
        for file, text in texts.items():
            (directory / file).write_text(text, "utf-8")
    return [directory / file for file in NAMES]


def _render(file: str, model: str) -> str:
    text = (files("servekit_archiver") / "template" / f"{file}.in").read_text("utf-8")
    if file == "service.py":
        return text
    quoted = model.replace("\\", "\\\\").replace('"', '\\"') if file == MODEL_TOML else model
    return text.replace(PLACEHOLDER, quoted)
