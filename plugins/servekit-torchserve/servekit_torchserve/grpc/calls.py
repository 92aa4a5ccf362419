# SPDX-License-Identifier: Apache-2.0
"""The calls that manage, with the answers of HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc
import msgspec

from servekit_torchserve.grpc.messages import message_class
from servekit_torchserve.grpc.predictions import CODES
from servekit_torchserve.management.errors import ManagementError, WrongParameter
from servekit_torchserve.management.parameters import Parameters
from servekit_torchserve.management.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from servekit_torchserve.management.access import ManagementAccess
    from servekit_torchserve.management.operations import ChangeAnswer, ManagementOperations

__all__ = ["ManagementCalls"]

ManagementResponse = message_class("management.ManagementResponse")
#: fields of 0 that mean something
KEPT: Final = ("synchronous",)


class ManagementCalls:
    """The methods of the management service; each runs in a thread."""

    def __init__(self, operations: ManagementOperations, access: ManagementAccess) -> None:
        """Carry out *operations* for those whom *access* admits."""
        self._operations, self._access = operations, access

    def register(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Load a model."""
        return self._answer(context, lambda: _text(self._register(request)))

    def _register(self, request: Any) -> Any:
        if not request.url:
            raise WrongParameter("url: missing")
        return self._operations.register(parameters_of(request))

    def unregister(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Unload a model or a version."""
        found = (request.model_name, request.model_version)
        return self._answer(context, lambda: _text(self._operations.unregister(*found)))

    def scale(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Change the number of workers."""
        found = (request.model_name, request.model_version, parameters_of(request))
        return self._answer(context, lambda: _text(self._operations.scale(*found)))

    def set_default(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Let a version answer where a request names none."""
        found = (request.model_name, request.model_version)
        return self._answer(context, lambda: _text(self._operations.set_default(*found)))

    def list_models(self, request: Any, context: grpc.ServicerContext) -> Any:
        """List a page of the models."""
        return self._answer(context, lambda: self._operations.list_models(parameters_of(request)))

    def describe(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Describe a version."""
        found = (request.model_name, request.model_version)
        return self._answer(context, lambda: self._operations.describe_model(*found))

    def _answer(self, context: grpc.ServicerContext, act: Callable[[], object]) -> Any:
        """Return what *act* returns as JSON; an error ends the call with its status."""
        metadata = dict(context.invocation_metadata() or ())
        try:
            self._access.require(str(metadata.get("authorization", "")))
            value = act()
        except UpstreamError as error:
            self._abort(context, error.as_error())
        except ManagementError as error:
            self._abort(context, error)
        if isinstance(value, str):
            return ManagementResponse(msg=value)
        return ManagementResponse(msg=msgspec.json.format(msgspec.json.encode(value)).decode())

    def _abort(self, context: grpc.ServicerContext, error: ManagementError) -> None:
        context.abort(CODES.get(error.code, grpc.StatusCode.INTERNAL), str(error))


def _text(answer: ChangeAnswer) -> str:
    """Return what a call that changes something answers: no JSON, unlike over HTTP."""
    return answer.text


def parameters_of(request: Any) -> Parameters:
    """Return the fields of *request* that are not 0 or empty."""
    fields = {each.name: getattr(request, each.name) for each in request.DESCRIPTOR.fields}
    return Parameters({name: value for name, value in fields.items() if value or name in KEPT})
