# SPDX-License-Identifier: Apache-2.0
"""The models to serve: each by a path or URL, and the settings that apply to it."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from servekit.errors import StartupError
from servekit.settings.deployments import Deployment, ReplicaRange
from servekit.settings.fields import Settings
from servekit.settings.values import did_you_mean, is_url, shown_url, split_class, split_model

__all__ = [
    "ModelSource",
    "deployments_of",
    "expected_replicas",
    "find_models",
    "model_sources",
    "name_clash",
    "name_of_class",
    "parse_models",
    "unknown_model",
]

ARCHIVES = (".mar", ".mar.enc")  #: ends of the names of archives
NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A path or URL, and the name to serve it under; "" takes the manifest's."""

    path: str  #: absolute, or ``/dir/service.py:Class``, or a URL that a plugin opens
    name: str = ""

    @property
    def key(self) -> str:
        """The part that stays when an operator changes where a model is."""
        return self.name or self.path

    @property
    def is_url(self) -> bool:
        """Whether a plugin has to open it."""
        return is_url(self.path)

    @property
    def file(self) -> str:
        """The archive, directory or Python file, where that is a path."""
        return split_class(self.path)[0]

    @property
    def text(self) -> str:
        """It as an operator writes it: ``NAME=PATH`` or ``PATH``."""
        return f"{self.name}={self.path}" if self.name else self.path

    @property
    def shown(self) -> str:
        """The path or URL without what may be a secret."""
        return shown_url(self.path) if self.is_url else self.path

    @property
    def provisional_name(self) -> str:
        """The name that is shown until the manifest is known."""
        file, service = split_class(self.shown)
        if service:
            return self.name or name_of_class(service)
        path = Path(file)
        if path.is_dir():
            return self.name or path.name
        return self.name or path.stem.removesuffix(".mar")  # encrypted: NAME.mar.enc


def model_sources(
    settings: Settings, loaded: Iterable[str] = (), *, may_be_none: bool = False
) -> list[ModelSource]:
    """Return the models that *settings* name: those of ``--models``, and the tables with a path.

    A table whose model ``--models`` names too only has settings for it.

    :param loaded: the names of models that were loaded at run time.
    :param may_be_none: models can be loaded later.
    :raises StartupError: there is none, a path does not exist, two have the same name, or a table
        belongs to no model.
    """
    found = [_parse(text) for text in settings.models]
    named = {source.name for source in found}
    paths = {each.name: each for each in settings.deployments if each.path}  # the last one wins
    found += [
        _existing(each.path, name, f"{each.source}: {name}.path")
        for name, each in paths.items()
        if name not in named
    ]
    sources = _distinct(found) if found or not may_be_none else []
    if all(source.name for source in sources) and (problem := unknown_model(settings, loaded)):
        raise StartupError(problem)
    return sources


def parse_models(texts: Iterable[str]) -> list[ModelSource]:
    """Parse ``PATH``, ``FILE:CLASS`` and ``URL``, each of which can follow ``NAME=``.

    :raises StartupError: there is none, a path does not exist, or two have the same name.
    """
    return _distinct([_parse(text) for text in texts])


def find_models(directory: Path) -> list[str]:
    """Return the paths of the models in *directory*, by name; none if it is empty or missing.

    That is the directory itself if it has a ``model.toml``, otherwise the archives and the model
    directories in it. If there are none but other files, it is the directory again: a plugin may
    recognise it.
    """
    if not directory.is_dir():
        return []
    if is_model(directory):
        return [str(directory)]
    entries = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    models = [str(each) for each in entries if each.name.endswith(ARCHIVES) or is_model(each)]
    return models or ([str(directory)] if entries else [])


def is_model(path: Path) -> bool:
    """Whether *path* is a directory with a ``model.toml``."""
    return (path / "model.toml").is_file()


def _distinct(found: list[ModelSource]) -> list[ModelSource]:
    if not found:
        raise StartupError("models: none given; name an archive or a model directory")
    named = [(source.name, source.shown) for source in found if source.name]
    if problem := name_clash(named):
        raise StartupError(f"models: {problem}")
    return found


def _parse(text: str) -> ModelSource:
    try:
        name, path = split_model(text)
    except (OSError, ValueError) as error:
        raise StartupError(f"models: {error}") from error
    return _existing(path, name, "models")


def _existing(path: str, name: str, where: str) -> ModelSource:
    """Return the source, which is a URL or exists; *where* is the setting that names it."""
    try:
        if is_url(path) and not os.path.exists(path):  # noqa: PTH110 - never raises
            return ModelSource(path, name)
        file, service = split_class(path)
        found = os.stat(file)  # noqa: PTH116 - unlike exists(), it says why not
    except OSError as error:
        raise StartupError(f"{where}: {path}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise StartupError(f"{where}: {error}") from error
    if file.endswith(".py") and S_ISREG(found.st_mode) and not service:
        raise StartupError(f"{where}: {path}: name its class, too: {path}:CLASS")
    return ModelSource(os.path.abspath(path), name)  # noqa: PTH100 - a link may lead elsewhere later


def deployments_of(settings: Settings, name: str) -> list[Deployment]:
    """Return what *settings* say about the model *name*, the strongest last.

    :param name: "" if it is not known yet: the settings of all models, by their names.
    """
    found = [each for each in settings.deployments if name in ("", each.name)]
    if settings.replicas:
        found.insert(0, Deployment(source="--replicas", replicas=settings.replicas))
    return found


def expected_replicas(settings: Settings, name: str) -> int:
    """Return how many replicas a model has that is not prepared yet, as far as *settings* say."""
    said = [each.replicas for each in deployments_of(settings, name) if each.replicas is not None]
    last = said[-1] if said else 1
    return last.min if isinstance(last, ReplicaRange) else last


def unknown_model(settings: Settings, names: Iterable[str]) -> str:
    """Return which settings belong to no model, or "".

    A model store may have the model later.

    :param names: of models that *settings* do not name.
    """
    if settings.model_store:
        return ""
    known = [*names, *(split_model(text)[0] for text in settings.models)]
    known += [each.name for each in settings.deployments if each.path]
    for each in settings.deployments:
        if each.name not in known:
            served = ", ".join(sorted({*known} - {""})) or "none"
            hint = did_you_mean(each.name, known) or f"; served: {served}"
            return f"{each.source}: no model is called {each.name!r}{hint}"
    return ""


def name_clash(models: Iterable[tuple[str, str]]) -> str:
    """Return which two models have names that differ in case at most, or "".

    :param models: the name and the path or URL of each.
    """
    seen: dict[str, tuple[str, str]] = {}
    for name, path in models:
        other, place = seen.get(name.casefold(), ("", ""))
        if other == name:
            twice = f"{path}, given twice" if path == place else f"{place} and {path}"
            return f"two models are called {name!r}: {twice}"
        if other:
            return f"{other} and {name} are the same name"
        seen[name.casefold()] = name, path
    return ""


def name_of_class(service: str) -> str:
    """Return the name of a model that is nothing but a class: ``DigitReader``, ``digit-reader``."""
    return NEW_WORD.sub("-", service).lower().strip("_")
