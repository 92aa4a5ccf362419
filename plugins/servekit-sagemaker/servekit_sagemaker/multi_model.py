# SPDX-License-Identifier: Apache-2.0
"""Multi-model endpoints: the views by which SageMaker loads, lists and unloads models."""

from __future__ import annotations

from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from flask import Blueprint, Response, request

from servekit.errors import ModelNotFound, RequestError, ServekitError
from servekit.extension import Load, Unload, error_message, read_json
from servekit.settings import find_models

if TYPE_CHECKING:
    from servekit.extension import OperationRow, Server
    from servekit_sagemaker.environment import SageMakerEnvironment

__all__ = ["create_blueprint"]

WAIT_S: Final = 350.0  #: for an operation; SageMaker waits for 360 s
PAGE: Final = 100  #: models in one answer
START_S: Final = 10.0  #: how long the supervisor may refuse operations after ``/ping`` is 200
POLL_S: Final = 0.05
CONFLICT, UNAVAILABLE, TOO_LATE = 409, 503, 504


class ModelDataRequest(msgspec.Struct):
    """A request to load a model; other members are ignored."""

    model_name: Annotated[str, msgspec.Meta(min_length=1)]
    url: str  #: path of the directory that SageMaker has unpacked the model data in


def create_blueprint(server: Server, platform: SageMakerEnvironment) -> Blueprint:
    """Return the views of ``/models``."""
    pages, views = Blueprint("sagemaker", __name__), ModelViews(server, platform)
    for method, path, view in (
        ("POST", "/models", views.load),
        ("GET", "/models", views.list_all),
        ("GET", "/models/<name>", views.show),
        ("DELETE", "/models/<name>", views.unload),
    ):
        pages.add_url_rule(path, view.__name__, view, methods=[method])
    pages.register_error_handler(ServekitError, _refused)
    return pages


class ModelViews:
    """The views; each runs in a greenlet, so it can wait."""

    def __init__(self, server: Server, platform: SageMakerEnvironment) -> None:
        """Load models from ``/opt/ml/models`` only: anyone who reaches the port can ask for it."""
        self._server = server
        self._directory = (platform.base / "models").resolve()
        #: by name of a model a link to what SageMaker calls its URL; for all front-ends
        self._urls = server.run_directory / "sagemaker"
        self._urls.mkdir(exist_ok=True)

    def load(self) -> Response:
        """Load a model: 409 if its name is taken, 507 if there is no memory for it."""
        asked = _model_data_request()
        if asked.model_name in self._server.models:
            return _failed(CONFLICT, f"{asked.model_name} is loaded already")
        operation = Load(source=self._source(asked.url), model=asked.model_name)
        row = self._operate(operation)
        if row.state != "done":
            return _unfinished(row)
        link = self._urls / asked.model_name
        link.unlink(missing_ok=True)
        link.symlink_to(asked.url)
        return _json(self._entry(asked.model_name))

    def _source(self, url: str) -> str:
        """Return the only model in the directory *url*.

        :raises RequestError: there is none, or several, or the directory is another one.
        """
        path = Path(url)
        try:
            if not path.is_absolute() or not path.resolve().is_relative_to(self._directory):
                raise RequestError(f"url: not a path below {self._directory}")
            found = find_models(path)
        except (OSError, ValueError) as error:  # it cannot be the path of anything
            raise RequestError(f"url: {error}") from None
        if len(found) != 1:
            raise RequestError(f"url: there are {len(found)} models, expected 1")
        return found[0]

    def list_all(self) -> Response:
        """List a page of the models by name; its token is the last name."""
        after = request.args.get("next_page_token", "")
        names = sorted(name for name in self._server.models if name > after)
        page: dict[str, Any] = {"models": [self._entry(name) for name in names[:PAGE]]}
        if len(names) > PAGE:
            page["nextPageToken"] = names[PAGE - 1]
        return _json(page)

    def show(self, name: str) -> Response:
        """Show one model."""
        self._require(name)
        return _json(self._entry(name))

    def unload(self, name: str) -> Response:
        """Unload a model, once its requests are answered."""
        self._require(name)
        row = self._operate(Unload(model=name))
        if row.state != "done":
            return _unfinished(row)
        (self._urls / name).unlink(missing_ok=True)
        return _json({})

    def _operate(self, operation: Load | Unload) -> OperationRow:
        """Carry out *operation*; right after the start, wait until that is possible."""
        deadline = monotonic() + START_S
        while True:
            row = self._server.operate(operation, WAIT_S)
            if row.status != UNAVAILABLE or monotonic() > deadline:
                return row
            sleep(POLL_S)

    def _require(self, name: str) -> None:
        if name not in self._server.models:
            raise ModelNotFound(f"{name[:80]} is not loaded")

    def _entry(self, name: str) -> dict[str, str]:
        link = self._urls / name
        return {"modelName": name, "modelUrl": str(link.readlink()) if link.is_symlink() else ""}


def _model_data_request() -> ModelDataRequest:
    """Return the body.

    :raises RequestError: it is not JSON, or lacks a member.
    """
    try:
        return read_json(request.get_data(), ModelDataRequest)
    except msgspec.DecodeError as error:
        raise RequestError(f"body: {error}") from None


def _unfinished(row: OperationRow) -> Response:
    if row.state == "failed":
        return _failed(row.status or 500, row.error)
    return _failed(TOO_LATE, f"{row.kind} of {row.model} is not finished")


def _refused(error: ServekitError) -> Response:
    return _failed(error.status, error_message(error))


def _failed(status: int, text: str) -> Response:
    request_id = request.environ.get("servekit.request_id", "")
    return _json({"error": text, "request_id": request_id}, status)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, mimetype="application/json")
