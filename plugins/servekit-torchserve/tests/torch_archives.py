# SPDX-License-Identifier: Apache-2.0
"""Archives as torch-model-archiver writes them, made without it."""

import io
import json
import tarfile
import zipfile
from pathlib import Path
from textwrap import dedent

MANIFEST = "MAR-INF/MANIFEST.json"


def manifest(name="echo", handler="handler.py", runtime="python", **model):
    """Return a manifest; members of ``model`` by keywords."""
    table = {"modelName": name, "handler": handler, "modelVersion": "1.0", **model}
    return {
        "createdOn": "22/11/2026 20:41:14",
        "runtime": runtime,
        "model": table,
        "archiverVersion": "0.12.0",
    }


def files_of(code="", name="echo", config="", files=None, **model):
    """Return the files of an archive whose handler is *code*."""
    if config:
        model["configFile"] = "model-config.yaml"
    table = {
        MANIFEST: json.dumps(manifest(name, **model), indent=2),
        "handler.py": dedent(code),
        **({"model-config.yaml": dedent(config)} if config else {}),
        **(files or {}),
    }
    return {
        each: text if isinstance(text, bytes) else text.encode() for each, text in table.items()
    }


def write_mar(path: Path, code="", **options) -> Path:
    """Write a ``.mar``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files_of(code, **options).items():
            file.writestr(name, content)
    return path


def write_tgz(path: Path, code="", **options) -> Path:
    """Write a ``.tar.gz``, whose files are in a folder with the name of the model."""
    with tarfile.open(path, "w:gz") as file:
        for name, content in files_of(code, **options).items():
            info = tarfile.TarInfo(f"{options.get('name', 'echo')}/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def write_directory(path: Path, code="", **options) -> Path:
    """Write a directory, as ``--archive-format no-archive`` does."""
    for name, content in files_of(code, **options).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path
