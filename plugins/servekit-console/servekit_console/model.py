# SPDX-License-Identifier: Apache-2.0
"""The page of one model: what it is, how it is served, what it does, and changes to it."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from flask import Blueprint, redirect, request, url_for
from msgspec import Struct, ValidationError, convert

from servekit.errors import InputError
from servekit.extension import Operation, ReloadModels, RollBack, Scale, Swap, Unload
from servekit_console.history import POINTS
from servekit_console.overview import (
    JOINS,
    SPARKS,
    ModelSummary,
    current_rates,
    joined,
    sparks_of,
    summary_of,
)
from servekit_console.pages import for_people, json_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask import Response
    from flask.typing import ResponseReturnValue

    from servekit.extension import Server
    from servekit_console.access import ConsoleAccess
    from servekit_console.collector import Reader
    from servekit_console.live import LiveRates

__all__ = ["ModelPage", "ModelPages", "add_model"]

LOG_LINES: Final = 60
HIDDEN: Final = "hidden; log in to see it"
#: files that say what a model needs, in its directory
ENVIRONMENT_FILES: Final = ("requirements.lock", "requirements.txt")
MOST_CHARACTERS: Final = 20_000  #: longer files are cut
REPLICAS: Final = re.compile(r"(stages\.(?P<stage>.+)\.)?replicas")  #: names of settings
KINDS: Final[dict[str, type[Operation]]] = {
    "swap": Swap,
    "rollback": RollBack,
    "scale": Scale,
    "reload": ReloadModels,
    "unload": Unload,
}


class ModelPage(Struct, kw_only=True):
    """The whole page."""

    summary: ModelSummary
    facts: Mapping[str, Any]  #: as ``Server.describe_model`` returns them
    versions: list[dict[str, Any]]  #: as management shows them, the default one first
    traffic: dict[str, Any]
    manifest: str  #: JSON
    environment: dict[str, str]  #: file name to content
    operations: list[dict[str, Any]]  #: those of the last minutes, newest first
    log: list[dict[str, Any]]  #: newest last; for those who may see inputs
    stages: dict[str, int]  #: replicas of the default version by stage; "" if it has no stages


class ModelPages:
    """Makes the pages of all models."""

    def __init__(
        self, server: Server, live: LiveRates, reader: Reader, access: ConsoleAccess
    ) -> None:
        """Show models of *server*; *access* decides who sees variables, and who sees the log."""
        self._server, self._live, self._reader = server, live, reader
        self._access = access

    def build(self, name: str) -> ModelPage:
        """Return the page of a model.

        :raises ModelNotFound: no model has this name.
        """
        ask = self._server.read_management
        state = ask(f"/models/{quote(name)}")
        summary = summary_of(state, current_rates(self._live, self._reader))
        keys = self._keys(name)
        summary.sparks = sparks_of(self._reader.history(list(SPARKS), keys), keys)
        loaded = [state, *state["versions"]]
        if not self._may_see_secrets():
            for each in loaded:
                each["settings"] = [_without_secrets(row) for row in each.get("settings", ())]
        operations = ask("/operations")["operations"]
        return ModelPage(
            summary=summary,
            facts=self._server.describe_model(name),
            versions=loaded,
            traffic=state["traffic"],
            manifest=self._manifest(name),
            environment=self._environment(name),
            operations=[each for each in reversed(operations) if each["model"] == name],
            log=self._log(name),
            stages=_stages(state),
        )

    def _log(self, name: str) -> list[dict[str, Any]]:
        if not self._access.may_see_inputs(request):
            return []
        lines = self._server.read_management(f"/logs?model={quote(name)}&limit={LOG_LINES}")
        found: list[dict[str, Any]] = lines["lines"]
        return found

    def _may_see_secrets(self) -> bool:
        return self._access.may_change(request)

    def series(self, name: str) -> Response:
        """Return the numbers of the charts: a list for each field, the times first."""
        keys = self._keys(name)
        history = self._reader.history(list(JOINS), keys)
        found: dict[str, list[float | None]] = {"times": list(history.times)}
        for field in JOINS:
            known = joined(history, keys, field, POINTS)
            padded = [*[nan] * (len(history.times) - len(known)), *known]
            found[field] = [None if isnan(value) else value for value in padded]
        return json_response(found)

    @for_people
    def operate(self, name: str, kind: str) -> ResponseReturnValue:
        """Begin an operation that a form asks for.

        :raises InputError: a field of the form is not valid.
        """
        given: dict[str, Any] = {key: value for key, value in request.form.items() if value}
        try:
            operation = convert({**given, "model": name}, KINDS[kind], strict=False)
        except ValidationError as error:
            message, _, field = str(error).replace("`", "").partition(" - at $.")
            raise InputError(f"{field}: {message}" if field else message) from error
        if isinstance(operation, Swap) and bool(operation.source) == bool(operation.version):
            raise InputError("give a source, or the version of one that is loaded")
        self._server.operate(operation, wait_s=0.0)  # the page shows how far it is, and a failure
        if isinstance(operation, Unload) and not operation.version:
            return redirect(url_for("console.overview"), 303)
        return redirect(url_for("console.model", name=name, _anchor="operations"), 303)

    def _keys(self, name: str) -> list[str]:
        model = self._server.models.get(name)
        if model is None:
            return []
        versions = [model.version, *(each.version for each in model.others.values())]
        return [f"{name}/{version}" for version in dict.fromkeys(versions)]

    def _manifest(self, name: str) -> str:
        path = self._path(name, "MANIFEST.json") or self._path(name, "MAR-INF/MANIFEST.json")
        settings = self._path(name, "model.toml")
        try:
            if path is not None:
                document = json.loads(path.read_text())
            elif settings is not None:
                document = tomllib.loads(settings.read_text())
            else:
                return ""
        except (OSError, ValueError) as error:  # somebody is writing it
            return f"cannot be read: {error}"
        shown = document if self._may_see_secrets() else _hidden(document)
        return json.dumps(shown, indent=2, default=str)[:MOST_CHARACTERS]

    def _environment(self, name: str) -> dict[str, str]:
        paths = {file: self._path(name, file) for file in ENVIRONMENT_FILES}
        return {
            file: path.read_text(errors="replace")[:MOST_CHARACTERS]
            for file, path in paths.items()
            if path is not None
        }

    def _path(self, name: str, file: str) -> Any:
        model = self._server.models.get(name)
        path = model.directory / file if model is not None and model.directory else None
        return path if path is not None and path.is_file() else None


def add_model(pages: Blueprint, models: ModelPages) -> None:
    """Add what the page of a model needs besides itself: its numbers, and its operations."""
    pages.add_url_rule("/models/<name>/series.json", "series", models.series)
    kinds = ", ".join(KINDS)
    pages.add_url_rule(
        f"/models/<name>/<any({kinds}):kind>", "operate", models.operate, methods=["POST"]
    )


def _stages(state: Mapping[str, Any]) -> dict[str, int]:
    """Return how many replicas each stage has; one that is asleep has none."""
    counts = Counter(row.get("stage", "") for row in state["replicas"])
    found = (REPLICAS.fullmatch(row["name"]) for row in state.get("settings", ()))
    return {each["stage"] or "": counts[each["stage"] or ""] for each in found if each}


def _without_secrets(row: dict[str, Any]) -> dict[str, Any]:
    is_secret = "env" in row["name"].split(".") and row["value"]
    return {**row, "value": HIDDEN} if is_secret else row


def _hidden(value: Any) -> Any:
    """Return *value* without the variables of environments, which may hold secrets."""
    if isinstance(value, dict):
        return {k: HIDDEN if k == "env" and v else _hidden(v) for k, v in value.items()}
    return [_hidden(each) for each in value] if isinstance(value, list) else value
