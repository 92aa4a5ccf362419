# SPDX-License-Identifier: Apache-2.0
"""The setting ``models``: a path or URL each, checked as far as it can be without opening it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings.values import is_url, shown_url, split_model

__all__ = ["ModelSource", "name_clash", "parse_models"]


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A path or URL, and the name to serve it under; "" takes the manifest's."""

    path: str  #: absolute, or a URL that a plugin opens
    name: str = ""

    @property
    def is_url(self) -> bool:
        """Whether a plugin has to open it."""
        return is_url(self.path)

    @property
    def shown(self) -> str:
        """The path or URL without what may be a secret."""
        return shown_url(self.path) if self.is_url else self.path

    @property
    def provisional_name(self) -> str:
        """The name that is shown until the manifest is known."""
        path = Path(self.shown)
        return self.name or (path.name if path.is_dir() else path.stem)


def parse_models(texts: Iterable[str]) -> list[ModelSource]:
    """Parse ``PATH``, ``URL``, ``NAME=PATH`` and ``NAME=URL``.

    :raises StartupError: there is none, a path does not exist, or two have the same name.
    """
    found = [_parse(text) for text in texts]
    if not found:
        raise StartupError("models: none given; name an archive or a model directory")
    if pair := name_clash(source.name for source in found if source.name):
        raise StartupError(f"models: {pair[0]} and {pair[1]} are the same name")
    return found


def _parse(text: str) -> ModelSource:
    try:
        name, path = split_model(text)
        if is_url(path) and not os.path.exists(path):  # noqa: PTH110 - never raises
            return ModelSource(path, name)
        os.stat(path)  # noqa: PTH116 - unlike exists(), it says why not
    except OSError as error:
        raise StartupError(f"models: {path}: {(error.strerror or '').lower()}") from error
    except ValueError as error:
        raise StartupError(f"models: {error}") from error
    return ModelSource(os.path.abspath(path), name)  # noqa: PTH100 - a link may lead elsewhere later


def name_clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that differ in case at most, if any."""
    seen: dict[str, str] = {}
    for name in names:
        key = name.casefold()
        if key in seen:
            return seen[key], name
        seen[key] = name
    return None
