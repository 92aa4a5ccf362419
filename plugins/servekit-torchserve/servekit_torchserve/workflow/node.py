# SPDX-License-Identifier: Apache-2.0
"""The services of the nodes of a workflow: models, functions, and the end of several leaves.

Between nodes travel bytes. A node with one predecessor gets them as ``body``; one with several gets
those of each by its name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from servekit_archiver import file_in

from servekit import ClientError, Response, Service
from servekit.errors import BootError
from servekit_torchserve.context import HandlerContext
from servekit_torchserve.entry import Handle, import_file
from servekit_torchserve.handler_metrics import HandlerMetrics
from servekit_torchserve.options import TorchServeOptions
from servekit_torchserve.requests import BODY, HandlerRequest, read_row
from servekit_torchserve.responses import JSON, encode_element
from servekit_torchserve.service import SHIM, ArchivedHandler, system_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servekit import Context, Request

__all__ = ["FunctionNode", "JoinNode", "ModelNode"]

CLIENT_ERRORS: Final = range(400, 500)


class NodeOptions(msgspec.Struct):
    """The ``[options]`` of a node."""

    is_first: bool = False  #: it gets the request
    is_last: bool = False  #: its output is the response
    directory: str = ""  #: of the archive of a model
    function: str = ""  #: ``file:function``


class ModelNode(ArchivedHandler):
    """The model of a node."""

    task = "torchserve-workflow"

    def load(self, context: Context) -> None:
        """Load the archive of the node."""
        self._options = context.read_options(NodeOptions)
        directory = file_in(context.directory, self._options.directory, "options.directory")
        sys.path.insert(0, str(directory))
        super().load(replace(context, directory=directory, options={}))

    def preprocess(self, request: Request) -> HandlerRequest:
        """Return what the handler gets."""
        return _row_of(request, self._options)

    def predict(self, batch: list[HandlerRequest]) -> list[Any]:
        """Return the outputs of the handler as bytes, or as responses."""
        found = self.calls.answer(batch)
        if failed := [each for each in found if each.status >= 500]:
            raise RuntimeError(f"{self.handler_context.model_name}: {failed[0].body.decode()}")
        return [
            ClientError(each.body.decode())
            if each.status in CLIENT_ERRORS
            else _output(each.body, each.media_type, self._options)
            for each in found
        ]


class FunctionNode(Service):
    """A function of the workflow's own file."""

    task = "torchserve-workflow"

    def load(self, context: Context) -> None:
        """Import the function."""
        self._options = context.read_options(NodeOptions)
        file, _, name = self._options.function.partition(":")
        if not file_in(context.directory, f"{file}.py", "options.function").is_file():
            raise BootError(f"dag: {name} is not a model, and there is no file of functions")
        sys.path.insert(1, str(SHIM))
        function = getattr(import_file(context.directory, file), name, None)
        if not callable(function):
            raise BootError(f"dag: {name} is neither a model nor a function of {file}.py")
        self._function: Handle = function
        self._context = HandlerContext(
            context.model,
            {},
            system_properties(context, TorchServeOptions()),
            HandlerMetrics(context.metrics),
            {},
        )

    def preprocess(self, request: Request) -> HandlerRequest:
        """Return what the function gets."""
        return _row_of(request, self._options)

    def predict(self, batch: list[HandlerRequest]) -> list[Any]:
        """Return the outputs of the function as bytes, or as responses."""
        self._context.begin([each.request_id for each in batch], [each.headers for each in batch])
        found = self._function([each.row for each in batch], self._context)
        return [_output(*encode_element(each), self._options) for each in found]


class JoinNode(Service):
    """Makes one response of the outputs of several leaves."""

    task = "torchserve-workflow"

    def predict(self, batch: list[Any]) -> list[Response]:
        """Return the outputs by node, as JSON."""
        return [_json({node: _value(each) for node, each in row.items()}) for row in batch]


def _row_of(request: Request, options: NodeOptions) -> HandlerRequest:
    """Return what a node gets: the request, or the outputs of the nodes before it."""
    if options.is_first:
        row = read_row(request.content_type, request.buffer)
    else:
        value = request.input
        rows: Mapping[str, Any] = value if isinstance(value, dict) else {BODY: value}
        row = {name: bytearray(each) for name, each in rows.items()}
    return HandlerRequest(row, {}, request.request_id)


def _output(body: bytes, media_type: str, options: NodeOptions) -> Response | bytes:
    return Response(body, content_type=media_type) if options.is_last else body


def _value(content: bytes) -> Any:
    """Return the value of *content* if it is JSON; otherwise its text."""
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return content.decode("utf-8", "replace")


def _json(value: object) -> Response:
    return Response(json.dumps(value, indent=2), content_type=JSON)
