# SPDX-License-Identifier: Apache-2.0
"""``servekit vertex``: becomes ``servekit start``, with what Vertex says in variables."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from servekit.errors import StartupError
from servekit.settings import find_models, parse_models
from servekit.settings.values import split_model
from servekit_vertex.environment import DEFAULTS, MODEL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from servekit.extension.commands import Run

__all__ = ["vertex"]

URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
ARCHIVES: Final = (".mar", ".mar.enc")
EPILOG: Final = """\
Settings are variables: SERVEKIT_REPLICAS=2. Each MODEL is a path, a URL, or a path below
AIP_STORAGE_URI. Without one, everything in AIP_STORAGE_URI is served, if that is a directory.

examples:
  servekit vertex                        all models in AIP_STORAGE_URI
  servekit vertex digits.mar             one of them
"""


def vertex(parser: argparse.ArgumentParser) -> Run:
    """Add the arguments; return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("models", nargs="*", metavar="MODEL", help="archive or model directory")
    return lambda parsed: start(parsed.models)


def start(names: Sequence[str]) -> NoReturn:
    """Replace this process by the server, so that the signals of the container reach it.

    :raises StartupError: there is no model to serve, or several and none is named.
    """
    environment = DEFAULTS | {name: text for name, text in os.environ.items() if text}
    if "SERVEKIT_BIND" not in environment:
        environment.setdefault("SERVEKIT_HOST", "0.0.0.0")  # noqa: S104 - Vertex is outside
        environment.setdefault("SERVEKIT_PORT", environment["AIP_HTTP_PORT"])
    models = models_of(names, environment)
    command = [sys.executable, "-P", "-m", "servekit", "start", *models]
    os.execve(sys.executable, command, environment)  # noqa: S606 - not a shell


def models_of(names: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the models to serve, as arguments of ``servekit start``.

    There may be none if the settings of the server name models.

    :raises StartupError: there is none, or none has the name of the one that is to answer.
    """
    storage = _mounted(environment.get("AIP_STORAGE_URI", ""))
    paths = [_below(storage, name) for name in names] if names else _stored(storage)
    if not paths:
        if environment.get("SERVEKIT_MODELS") or environment.get("SERVEKIT_MODEL_STORE"):
            return []
        where = f"AIP_STORAGE_URI: {storage}: no archive and no model directory"
        raise StartupError(where if storage else "no model: AIP_STORAGE_URI is not set")
    model = environment.get(MODEL, "")
    if len(paths) == 1 and not model:
        return paths
    sources = parse_models(paths)
    found = {source.provisional_name: source for source in sources}
    if model not in found:
        raise StartupError(f"found {', '.join(found)}; {MODEL} names {model or 'none of them'}")
    chosen = found[model]
    return [f"{model}={each.path}" if each is chosen else each.text for each in sources]


def _mounted(storage: str) -> str:
    """Return *storage*, or the directory where its bucket is mounted."""
    mounted = storage.replace("gs://", "/gcs/", 1)
    return mounted if Path(mounted).exists() else storage


def _below(storage: str, text: str) -> str:
    """Return *text*, ``NAME=PATH`` or ``PATH``; a path that does not exist is below *storage*.

    :raises StartupError: the name or the path is empty.
    """
    try:
        name, path = split_model(text, Path(storage))
    except ValueError as error:
        raise StartupError(f"models: {error}") from None
    if not storage or any(URL.match(each) or Path(each).exists() for each in (text, path)):
        return text
    below = f"{storage.rstrip('/')}/{path}"
    return f"{name}={below}" if name else below


def _stored(storage: str) -> list[str]:
    """Return the models in *storage*.

    :raises StartupError: it is a folder that cannot be listed.
    """
    if not URL.match(storage):
        return find_models(Path(storage)) if storage else []
    if storage.endswith(ARCHIVES):
        return [storage]
    reason = "a folder of a bucket is not listed; name the archive: servekit vertex NAME.mar"
    raise StartupError(f"AIP_STORAGE_URI: {storage}: {reason}")
