# SPDX-License-Identifier: Apache-2.0
"""Handlers of MMS 1.x in a worker: ``handle(data, context)`` of a module or of a class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl

import msgspec

from servekit import InputError, Service
from servekit.errors import BootError
from servekit.extension import read_json
from servekit.types import File
from servekit_mms.handler_context import MetricsStore, MMSContext, RefusedPrediction
from servekit_mms.modules import import_name
from servekit_mms.options import MMSOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from servekit import Context, Request
    from servekit_mms.archives import HandlerArchive

__all__ = ["HandlerService"]

FORM: Final = "multipart/form-data"
URLENCODED: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
BODY: Final = "body"  #: the name of a body that is not a form
VERSION: Final = "1.1"  #: of MMS, as handlers see it


class HandlerService(Service):
    """Calls the handler of an archive with what a client sent, whatever that is."""

    task = "mms"
    request_headers = ("*",)

    archive: ClassVar[HandlerArchive]

    def load(self, context: Context) -> None:
        """Import the handler, and initialize it."""
        options = context.read_options(MMSOptions)
        if options.service:
            raise BootError("options.service: is for archives of MMS 0.x")
        self._context, self._metrics = context, MetricsStore(context)
        self._properties = {
            "model_dir": str(context.directory),
            "gpu_id": options.gpu,
            "batch_size": context.max_batch_size,
            "server_name": "MMS",
            "server_version": VERSION,
        }
        name, function = self.archive.entry_point
        self._handle = _entry_point(import_name(name), function, self._context_of([]))

    def _context_of(self, requests: Sequence[Request]) -> MMSContext:
        archive = self.archive
        return MMSContext(
            archive.model.model_name, archive.manifest, self._properties, requests, self._metrics
        )

    def preprocess(self, request: Request) -> Any:
        """Return the parts of a form by name, or the body; and the parameters of the query."""
        parts = {name: _plain(value) for name, value in request.query.items()}
        if request.content_type == FORM:
            return parts | request.input
        if request.content_type == URLENCODED:
            pairs = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
            return parts | {name: _plain(value) for name, value in pairs}
        return parts | {BODY: File("", request.content_type, request.body)}

    def predict(self, batch: list[dict[str, File]]) -> Any:
        """Return what the handler answers for each request."""
        answers: list[Any] = [_values(parts) for parts in batch]
        places = [at for at, each in enumerate(answers) if not isinstance(each, InputError)]
        if not places:
            return answers
        requests = self._context.requests
        context = self._context_of([requests[at] for at in places] if requests else [])
        outputs = self._answered([answers[at] for at in places], context)
        if not isinstance(outputs, list | tuple) or len(outputs) != len(places):
            return outputs  # the server says what is wrong with it
        for number, (at, output) in enumerate(zip(places, outputs, strict=True)):
            answers[at] = context.response(number, output)
        return answers

    def _answered(self, data: list[dict[str, Any]], context: MMSContext) -> Any:
        try:
            return self._handle(data, context)
        except RefusedPrediction as error:
            code = error.error_code
            self._context.logger.warning("the handler answers %d: %s", code, error.message)
            context.set_all_response_status(code)
            said = {"code": code, "type": "PredictionException", "message": error.message}
            return [said] * len(data)


def _entry_point(module: ModuleType, function: str, context: MMSContext) -> Callable[..., Any]:
    """Return the function of *module*, or that method of the only class with ``initialize``.

    A function is called once without data, and a class is initialized, as MMS does.

    :raises BootError: there is neither.
    """
    handle: Callable[..., Any] | None = getattr(module, function, None)
    if handle is not None:
        handle(None, context)
        return handle
    classes: list[Any] = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if each.__module__ == module.__name__ and hasattr(each, "initialize")
    ]
    if len(classes) != 1 or not hasattr(classes[0], function):
        raise BootError(f"{module.__name__}: has no function {function}, nor one class with it")
    handler = classes[0]()
    handler.initialize(context)
    method: Callable[..., Any] = getattr(handler, function)
    return method


def _plain(text: str) -> File:
    return File("", "", text.encode())


def _values(parts: dict[str, File]) -> dict[str, Any] | InputError:
    try:
        return {name: _value(name, file) for name, file in parts.items()}
    except InputError as error:
        return error


def _value(name: str, file: File) -> Any:
    """Return JSON as its value, text as a string, and anything else as bytes.

    :raises InputError: it is not what its content type says.
    """
    media_type = file.content_type.partition(";")[0].strip().lower()
    try:
        if media_type == JSON:
            return read_json(file.content, object)
        if media_type.startswith("text/"):
            return file.content.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: is not {media_type}: {error}") from None
    return bytearray(file.content)
