# SPDX-License-Identifier: Apache-2.0
"""From ``Launch`` to ``Ready``, or to ``BootFailed`` with one line that says where."""

import os
import traceback
from pathlib import Path
from types import TracebackType

import msgspec
from servekit_archiver import Manifest

from servekit.errors import StartupError
from servekit.ipc.control import Launch
from servekit.worker.boot.loading import Loading, load_service, prove
from servekit.worker.serving.loaded import Loaded

__all__ = ["boot", "loading_of", "reason_of"]

SHOWN = 500


def boot(launch: Launch) -> Loaded:
    """Load what *launch* says, and prove it. Raises whatever the author's code raises."""
    loading = loading_of(launch)
    loaded = load_service(loading)
    prove(loaded, loading)
    return loaded


def loading_of(launch: Launch) -> Loading:
    """Return what *launch* says is to be loaded."""
    return Loading(
        directory=Path(launch.directory),
        manifest=_manifest(launch.manifest),
        assets={name: Path(path) for name, path in launch.assets.items()},
        replica=launch.replica,
        replicas=launch.replicas,
        stage=launch.stage,
        threads=launch.threads,
        max_batch_size=launch.max_batch_size,
        max_answer_bytes=launch.max_answer_bytes,
        log_format=launch.log_format,
        is_dev=launch.is_dev,
        log_level=launch.log_level,
        beside={name: _manifest(each) for name, each in launch.beside.items()},
        handed_on=launch.handed_on,
    )


def _manifest(text: bytes) -> Manifest:
    return Manifest.from_mapping(msgspec.json.decode(text))


def reason_of(error: BaseException, directory: str) -> str:
    """Return one line: what was raised, and the last line of the author's code it came from."""
    text = " ".join(_text(error).split())
    if isinstance(error, StartupError) and not error.__cause__:
        return text[:SHOWN]
    named = text if isinstance(error, StartupError) else f"{type(error).__name__}: {text}"
    where = _place(error.__cause__ or error, os.path.realpath(directory))
    return f"{named.removesuffix(': ')[:SHOWN]}{where}"


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an author's exception
        return ""


def _place(error: BaseException, directory: str) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_short(error.filename, directory)}:{error.lineno})"
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(_traceback(error))]
    own = [frame for frame in frames if os.path.realpath(frame[0]).startswith(directory + os.sep)]
    if not (own or frames):
        return ""
    filename, line = (own or frames)[-1]
    return f" ({_short(filename, directory)}:{line})"


def _traceback(error: BaseException) -> TracebackType | None:
    return error.__traceback__


def _short(filename: str, directory: str) -> str:
    path = os.path.realpath(filename)
    return os.path.relpath(path, directory) if path.startswith(directory) else filename
