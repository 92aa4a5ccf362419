# SPDX-License-Identifier: Apache-2.0
"""The calls of the management API, each as operations of the server."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from servekit_torchserve.management.archives import identity_of, locate
from servekit_torchserve.management.description import ServedModelState, describe
from servekit_torchserve.management.errors import (
    AlreadyRegistered,
    CallFailed,
    DefaultVersionStays,
    ModelApiOff,
    UnknownModel,
    UnknownVersion,
    WrongParameter,
)
from servekit_torchserve.management.model_settings import kept_settings, settings_of
from servekit_torchserve.management.upstream import UpstreamError, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servekit_torchserve.management.description import ServedVersionState
    from servekit_torchserve.management.parameters import Parameters
    from servekit_torchserve.management.upstream import Upstream

__all__ = ["ChangeAnswer", "ManagementOperations"]

WAIT_S: Final = 600.0  #: for an operation, at most
POLL_S: Final = 0.05  #: how often to check whether a model is busy
MOST_LISTED, LISTED = 1000, 100
OK, ACCEPTED, CONFLICT = 200, 202, 409
UNDER_WAY: Final = "Processing worker updates..."
RUNTIMES: Final = ("python", "python3", "LSP")


class ChangeAnswer(msgspec.Struct):
    """The answer to a call that changes something."""

    text: str
    status: int = OK


class ManagementOperations:
    """All calls; each blocks until it is done, or has begun if that is enough."""

    def __init__(
        self, upstream: Upstream, model_store: Path | None, *, is_model_api_on: bool
    ) -> None:
        """Ask *upstream*, the server.

        :param model_store: where archives are that a registration names without a path.
        :param is_model_api_on: whether models may be registered and unregistered.
        """
        self._upstream = upstream
        self._model_store = model_store
        self._is_model_api_on = is_model_api_on

    # ------------------------------------------------------------ what there is

    def list_models(self, parameters: Parameters) -> dict[str, Any]:
        """Return a page of the models, with the token of the next one."""
        limit, start = parameters.number("limit"), parameters.number("next_page_token")
        size = limit if limit is not None and 1 <= limit <= MOST_LISTED else LISTED
        first = max(0, start or 0)
        models = sorted(self._models(), key=lambda model: model.name)
        page = models[first : first + size]
        found: dict[str, Any] = {}
        if first + size < len(models):
            found["nextPageToken"] = str(first + size)
        found["models"] = [{"modelName": each.name, "modelUrl": each.archive} for each in page]
        return found

    def describe_model(self, name: str, version: str = "") -> list[dict[str, Any]]:
        """Return the description of the default version, of *version*, or of ``all``."""
        model = self._model(name)
        if version == "all":
            return [describe(model, each) for each in model.every_version]
        return [describe(model, self._version(model, version))]

    def _models(self) -> list[ServedModelState]:
        found = []
        for each in self._upstream.ask("GET", "/models")["models"]:
            with suppress(UnknownModel):  # it has been unloaded meanwhile
                found.append(self._model(each["name"]))
        return found

    def _model(self, name: str) -> ServedModelState:
        try:
            found = self._upstream.ask("GET", path_of("models", name))
        except UpstreamError as error:
            raise UnknownModel(f'there is no model "{name}"') from error
        return msgspec.convert(found, ServedModelState)

    def _version(self, model: ServedModelState, version: str) -> ServedVersionState:
        found = model.find(version)
        if found is None:
            text = f'model "{model.name}" has no version {version}'
            raise UnknownVersion(text)
        return found

    # ------------------------------------------------------------ models come and go

    def register(self, parameters: Parameters) -> ChangeAnswer:
        """Load a model or a version; without workers it is loaded by its first request."""
        self._require_model_api()
        if "url" not in parameters:
            raise WrongParameter("url: missing")
        if (runtime := parameters.text("runtime", RUNTIMES[0])) not in RUNTIMES:
            raise WrongParameter(f"runtime: {runtime!r} is not one of {', '.join(RUNTIMES)}")
        source = locate(parameters.text("url"), self._model_store)
        name = parameters.text("model_name") or identity_of(source).name
        if name:
            self._require_new(name, identity_of(source).version)
        workers = max(0, parameters.number("initial_workers") or 0)
        if workers and parameters.number("startup_timeout") == 0:
            raise CallFailed("startup_timeout: no worker starts in 0 s")
        is_synchronous = parameters.switch("synchronous", default=True)
        body = {"source": source, "model": name, "settings": settings_of(parameters, workers)}
        row = self._operate(
            "POST", "/models", body, model=name, waits=is_synchronous or not workers
        )
        if row["state"] != "done":
            return ChangeAnswer(UNDER_WAY, ACCEPTED)
        label = f'Model "{row["model"]}" Version: {row["version"]} registered with {workers}'
        more = "" if workers else ". Use scale workers API to add workers for the model."
        return ChangeAnswer(f"{label} initial workers{more}")

    def _require_new(self, name: str, version: str) -> None:
        """Pass unless *version* of the model *name* is registered already."""
        try:
            model = self._model(name)
        except UnknownModel:
            return
        if version and model.find(version) is not None:
            text = f'version {version} of model "{name}" is registered already'
            raise AlreadyRegistered(text)

    def unregister(self, name: str, version: str = "") -> ChangeAnswer:
        """Unload a version, or the whole model with its last one."""
        self._require_model_api()
        model = self._model(name)
        found = self._version(model, version)
        path = path_of("models", name)
        if not model.versions:
            self._operate("DELETE", path, model=name)
        elif found is model.default:
            text = f"{found.version} is the default version, and there are others"
            raise DefaultVersionStays(f"{text}: set another default first")
        elif found is model:  # servekit's default leaves when the one with the weight takes over
            body = {"version": model.default.version, "watch_s": 0, "keep_s": 0}
            self._operate("POST", f"{path}/swap", body, model=name)
        else:
            self._operate("DELETE", path + path_of("versions", found.version), model=name)
        return ChangeAnswer(f'Model "{name}" unregistered')

    def _require_model_api(self) -> None:
        if not self._is_model_api_on:
            raise ModelApiOff("models are registered only if enable_model_api is set")

    # ------------------------------------------------------------ workers and versions

    def scale(self, name: str, version: str, parameters: Parameters) -> ChangeAnswer:
        """Change the number of workers of *version*, or of all versions."""
        least = parameters.number("min_worker")
        least = 1 if least is None else least
        given = parameters.number("max_worker")
        most = least if given is None else given
        found = self._version(self._model(name), version)
        if most < least:
            raise WrongParameter(f"max_worker: {most} is below min_worker, {least}")
        if least < 0:
            raise CallFailed(f"min_worker: {least} is below 0")
        waits = parameters.switch("synchronous", default=False)
        row = self._scale(name, version, found, (least, most), waits=waits)
        if row["state"] != "done":
            return ChangeAnswer(UNDER_WAY, ACCEPTED)
        status = OK if waits else ACCEPTED
        return ChangeAnswer(f'Model "{name}" has {least} workers' if waits else UNDER_WAY, status)

    def _scale(
        self,
        name: str,
        version: str,
        found: ServedVersionState,
        bounds: tuple[int, int],
        *,
        waits: bool,
    ) -> Mapping[str, Any]:
        """Scale *found*; a model that has to wake or to sleep is loaded again in its place."""
        least, most = bounds
        replicas = least if least == most or not least else {"min": least, "max": most}
        if least and not found.is_asleep:
            body: dict[str, Any] = {"replicas": replicas, "version": version}
            return self._operate("PUT", path_of("models", name), body, model=name, waits=waits)
        settings = {"replicas": replicas, **kept_settings(found)}
        body = {"source": found.source, "model": name, "settings": settings}
        return self._operate("POST", "/models", body, model=name, waits=waits)

    def set_default(self, name: str, version: str) -> ChangeAnswer:
        """Let *version* answer where a request names none; the others stay."""
        model = self._model(name)
        found = self._version(model, version)
        if found is not model.default:  # by its weight: a swap would unload the other one
            weights = {} if found is model else {version: 1}
            body = {"weights": weights}
            self._operate("PUT", path_of("models", name), body, model=name)
        return ChangeAnswer(f'Model "{name}" answers with version {version}')

    # ------------------------------------------------------------ the server

    def _operate(
        self, method: str, path: str, body: object = None, *, model: str, waits: bool = True
    ) -> Mapping[str, Any]:
        """Return the row of an operation on *model*, which begins when the ones before it end.

        :raises ManagementError: it was refused, or has failed.
        """
        target = f"{path}?wait={WAIT_S:g}" if waits else path
        deadline, was_busy = monotonic() + WAIT_S, True
        while True:
            try:
                return cast("Mapping[str, Any]", self._upstream.ask(method, target, body))
            except UpstreamError as error:
                is_busy = self._is_busy(model)
                if error.status != CONFLICT or not (is_busy or was_busy) or monotonic() > deadline:
                    raise error.as_error() from error
                was_busy = is_busy
            sleep(POLL_S)

    def _is_busy(self, model: str) -> bool:
        rows = self._upstream.ask("GET", "/operations")["operations"]
        return any(row["model"] == model and row["state"] == "running" for row in rows)
