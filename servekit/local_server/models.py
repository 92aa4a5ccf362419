# SPDX-License-Identifier: Apache-2.0
"""The models that a Python program names, as the command line of a server takes them."""

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from servekit.errors import StartupError
from servekit.settings import Settings, load_settings
from servekit.settings.models import model_sources
from servekit.settings.values import is_url, split_model

if TYPE_CHECKING:
    from servekit.service.base import Service

__all__ = ["ModelLike", "Models", "check", "model_texts"]

#: an archive or a model directory, ``service.py:Class``, a URL, or a class of a file
ModelLike: TypeAlias = "str | os.PathLike[str] | type[Service]"
Models: TypeAlias = "Mapping[str, ModelLike] | ModelLike"  #: name to model, or one model

#: ``python -m servekit``: a command may start a server
COMMANDS: Final = ("servekit.__main__", "servekit.cli.__main__")


def check(models: Sequence[str], settings: Mapping[str, Any]) -> Settings:
    """Return the settings of a server of *models*.

    :raises StartupError: the server would refuse *models* or *settings*.
    """
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name.startswith("servekit.") and main.name not in COMMANDS:
        below = 'call it below `if __name__ == "__main__":`'
        raise StartupError(f"serve() is called when a worker imports this file; {below}")
    checked = load_settings({**settings, "models": models})
    model_sources(checked)
    return checked


def model_texts(models: Models) -> list[str]:
    """Return models as one would type them, with absolute paths.

    :raises StartupError: a name or a path is empty, or no worker could import a class.
    """
    if isinstance(models, Mapping):
        return [f"{name}={_path(model)}" for name, model in models.items()]
    return [_path(models)]


def _path(model: ModelLike) -> str:
    if isinstance(model, type):
        return _class_path(model)
    try:
        name, path = split_model(os.fspath(model))
    except ValueError as error:
        raise StartupError(f"models: {error}") from None
    path = path if is_url(path) else os.path.abspath(path)  # noqa: PTH100 - a link may move
    return f"{name}={path}" if name else path


def _class_path(service: type) -> str:
    """Return ``/dir/service.py:Class``.

    :raises StartupError: no worker could import the class.
    """
    name = service.__qualname__
    try:
        file = inspect.getsourcefile(service)
    except (OSError, TypeError):  # defined at a prompt, or built in
        file = None
    if file is None or not file.endswith(".py") or not os.path.exists(file):  # noqa: PTH110
        raise StartupError(f"{name}: workers cannot import a class that is not defined in a file")
    if "." in name:
        raise StartupError(f"{name}: workers can only import a class at the top level of its file")
    return f"{os.path.abspath(file)}:{name}"  # noqa: PTH100 - a link may move
