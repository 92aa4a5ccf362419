# SPDX-License-Identifier: Apache-2.0
"""Judges the start once the first load of every model is over."""

from collections.abc import Sequence

from servekit import __version__
from servekit.errors import StartupError
from servekit.settings import Settings
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.routes import clashes
from servekit.supervisor.reporting.journal import Notice

__all__ = ["AllRefused", "has_settled", "problem", "serving"]


class AllRefused(StartupError):
    """No model could be prepared; each has said ``cannot be loaded`` and why."""


def has_settled(models: Sequence[Model]) -> bool:
    """Say whether the first load of every model is over."""
    return all(model.has_settled for model in models)


def problem(models: Sequence[Model], settings: Settings) -> StartupError | None:
    """Return why the start has failed, if it has: with ``reload`` the next save may mend it."""
    failed = [model for model in models if model.has_settled and not model.is_loaded]
    if len(failed) == len(models) and not settings.reload:
        kind = AllRefused if all(model.failure for model in failed) else StartupError
        return kind("no model could be loaded")
    for clash in clashes([model.row() for model in models if model.has_settled]):
        return StartupError(f"models: {clash.text}")
    if failed and settings.strict and has_settled(models):  # so that it names all of them
        return StartupError(f"strict: {_names(failed)} could not be loaded")
    return None


def serving(models: Sequence[Model], url: str) -> Notice:
    """Return the one line that scripts wait for."""
    labels = [model.label for model in models if model.is_loaded]
    failed = [model for model in models if not model.is_loaded]
    text = f"{__version__} serving {', '.join(labels) or 'nothing yet'} at {url}  (docs at /docs)"
    if failed:
        text += f"; {_names(failed)} could not be loaded"
    fields = {"url": url, "models": labels, "failed": [model.name for model in failed]}
    return Notice("serving", "servekit", text, fields=fields)


def _names(models: Sequence[Model]) -> str:
    return ", ".join(model.name for model in models)
