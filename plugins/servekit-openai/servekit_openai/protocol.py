# SPDX-License-Identifier: Apache-2.0
"""The front-end half: which model answers, what models there are, and errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import MethodNotAllowed, ModelNotFound, ServekitError
from servekit.extension import HttpResponse, PredictionCall
from servekit_openai.description import describe_models, describe_predictions
from servekit_openai.errors import OpenAIErrors
from servekit_openai.model_name import find_name
from servekit_openai.tasks import ALL_TASKS, ENGINE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from servekit.extension import ModelView, RequestHead, Server

__all__ = ["ModelsPath", "TaskPath"]

READ: Final = (b"GET", b"HEAD")
MODELS: Final = "/v1/models"
SHOWN: Final = 80  #: characters of a name that an error repeats


def has_task(model: ModelView | None, tasks: Collection[str]) -> bool:
    """Whether *model* has loaded, and is for one of *tasks*."""
    return model is not None and model.interface is not None and model.interface.task in tasks


class TaskPath(OpenAIErrors):
    """``POST`` to one path, for the models of one task. The body names the model."""

    def __init__(
        self,
        server: Server,
        path: str,
        task: str,
        envelope: str,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Answer at *path* for the models of *server* that have *task*, and for engines.

        :param envelope: the worker half.
        :param parameters: for the worker half.
        """
        self._parameters = {"path": path, **(parameters or {})}
        self._server, self._path, self._task = server, path, task
        self.paths, self.envelope = (path,), envelope
        self._tasks = (task, ENGINE)
        self._last = ""  #: the model that was named last

    def find(self, head: RequestHead) -> PredictionCall | ServekitError:
        """Return a prediction with a likely model."""
        if head.method != b"POST":
            return MethodNotAllowed("allowed here: POST", allow="POST")
        if not (model := self._likely()):
            return ModelNotFound(f"no {self._task} model is served here")
        return PredictionCall(model=model, is_provisional=True, parameters=self._parameters)

    def _likely(self) -> str:
        """Return the model that most probably is meant; "" if no model can answer."""
        models = self._server.models
        if self._last in models:
            return self._last
        unknown = (name for name, model in models.items() if model.interface is None)
        known = (name for name, model in models.items() if has_task(model, self._tasks))
        return next(known, "") or next(unknown, "")

    def find_model(self, body: bytes | memoryview) -> str:
        """Return the model that *body* names.

        :raises ModelNotFound: it is for another task, or does not exist.
        :raises RequestError: it names none.
        """
        name = find_name(body)
        model = self._server.models.get(name)
        if model is None:
            raise ModelNotFound(f"no model is called {name[:SHOWN]}")
        if model.interface is not None and not has_task(model, self._tasks):
            raise ModelNotFound(f"{name} is not a {self._task} model")
        self._last = name
        return name

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the path, if a model answers there."""
        models = self._server.models.values()
        if not any(has_task(model, self._tasks) for model in models):
            return {}
        return describe_predictions(document, self._path, self._task)


class ModelsPath(OpenAIErrors):
    """``GET /v1/models``: the models that OpenAI's clients can use.

    KServe's V1 protocol has the same paths. This one answers as soon as there is such a model, and
    leaves single models that are for something else to KServe's.
    """

    paths = (MODELS, f"{MODELS}/")
    is_selective = True

    def __init__(self, server: Server) -> None:
        """Answer for the models of *server*."""
        self._server = server
        self._created = int(time.time())  #: nothing tells when a model was made

    def find(self, head: RequestHead) -> HttpResponse | ServekitError | None:
        """Return what is known about one of the models, or all of them."""
        models = self._server.models
        ours = [name for name, model in models.items() if has_task(model, ALL_TASKS)]
        name = head.path.decode("utf-8", "replace").removeprefix(MODELS).removeprefix("/")
        is_foreign = name in models and name not in ours
        if not ours or is_foreign or "/" in name or ":" in name:
            return None
        if head.method not in READ:
            return MethodNotAllowed("allowed here: GET, HEAD", allow="GET, HEAD")
        if not name:
            return _json({"object": "list", "data": [self._row(each) for each in ours]})
        if name not in ours:
            return ModelNotFound(f"no model is called {name[:SHOWN]}")
        return _json(self._row(name))

    def _row(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "servekit"}

    def openapi(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paths, if there is such a model and no other plugin describes them."""
        has_some = any(has_task(model, ALL_TASKS) for model in self._server.models.values())
        is_free = MODELS not in document.get("paths", {})
        return describe_models() if has_some and is_free else {}


def _json(value: Any) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), "application/json")
