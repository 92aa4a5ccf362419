# SPDX-License-Identifier: Apache-2.0
"""The base of all envelopes: it checks the task of the model and the body of the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec

from servekit.errors import BodyMalformed, InputError, ModelNotFound
from servekit.extension import EncodedResponse, Envelope
from servekit_openai.errors import refusal
from servekit_openai.proxy.relay import EngineHead, call_of, relayed
from servekit_openai.tasks import ENGINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servekit.extension import Codecs, EnvelopeRequest, ModelView

__all__ = ["JSON", "Api", "converted"]

JSON: Final = "application/json"
#: parts of a message of msgspec: the mistake and its place
MISTAKE: Final = re.compile(r"(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?")
MISSING: Final = re.compile(r"Object missing required field `(.+)`")

T = TypeVar("T")


class Api(Envelope):
    """One path. Subclasses read and write the bodies of services.

    Requests for engines that run elsewhere, and their responses, are passed on unchanged.
    """

    task: ClassVar[str]

    def __init__(self, model: ModelView, codecs: Codecs) -> None:
        """Serve *model*."""
        super().__init__(model, codecs)
        self._task = model.interface.task if model.interface is not None else ""
        self._is_engine = self._task == ENGINE

    def decode(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs in the body of *request*.

        :raises ModelNotFound: the model is for another task.
        """
        if self._is_engine:
            return [call_of(request)]
        if self._task != self.task:
            raise ModelNotFound(f"{self.model.name} is not a {self.task} model")
        return self.read(request)

    def encode(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the whole response."""
        return relayed(outputs[0]) if self._is_engine else self.write(request, outputs)

    def encode_output(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the events of one *output*."""
        if not self._is_engine:
            return self.write_piece(request, output)
        if isinstance(output, EngineHead):
            request.is_stream = output.is_stream
            return b""
        return bytes(output)

    # ------------------------------------------------------------ what subclasses define

    def read(self, request: EnvelopeRequest) -> Sequence[Any]:
        """Return the inputs for a service."""
        raise NotImplementedError

    def write(self, request: EnvelopeRequest, outputs: Sequence[Any]) -> EncodedResponse:
        """Return the response with the *outputs* of a service."""
        raise NotImplementedError

    def write_piece(self, request: EnvelopeRequest, output: Any) -> bytes:
        """Return the events of one *output* of a service that streams."""
        raise NotImplementedError

    # ------------------------------------------------------------ what subclasses use

    def read_object(self, request: EnvelopeRequest) -> dict[str, Any]:
        """Return the members of the body of *request*.

        :raises BodyMalformed: it is not JSON, or names two models.
        :raises InputError: it is not an object.
        """
        body = self.codecs.read(JSON, bytes(request.body))
        if not isinstance(body, dict):
            raise InputError("body: expected an object")
        if body.get("model") != self.model.name:
            raise BodyMalformed("model: named twice, differently")
        return body


def converted(body: Any, kind: type[T]) -> T:
    """Return *body* as *kind*.

    :raises InputError: a member is not of its type; names it.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        found = MISTAKE.fullmatch(str(error))
        message, place = found.groups("") if found else (str(error), "")
        if missing := MISSING.fullmatch(message):
            message, place = "missing", f"{place}.{missing[1]}".lstrip(".")
        raise refusal(place, message.replace("`", "")) from None
