# SPDX-License-Identifier: Apache-2.0
"""The JSON of a request for inference. Members that are not here are ignored."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError

__all__ = ["InferRequest", "RequestedInput", "RequestedOutput", "read_request"]

NO_TEXT = msgspec.Raw()


class InputParameters(Struct, frozen=True):
    """The parameters of one input."""

    binary_data_size: int | None = None  #: bytes of it behind the JSON
    shared_memory_region: str | None = None


class RequestedInput(Struct):
    """One input tensor."""

    name: str
    datatype: str
    shape: list[int]
    parameters: InputParameters = InputParameters()
    data: msgspec.Raw = NO_TEXT


class OutputParameters(Struct, frozen=True):
    """The parameters of one output."""

    binary_data: bool | None = None  #: behind the JSON of the response, rather than in it
    classification: int = 0  #: how many of the largest elements, in place of all
    shared_memory_region: str | None = None


class RequestedOutput(Struct):
    """One output tensor that the client wants."""

    name: str
    parameters: OutputParameters = OutputParameters()


class RequestParameters(Struct, frozen=True):
    """The parameters of a request."""

    binary_data_output: bool = False  #: the default of ``binary_data``


class InferRequest(Struct):
    """A whole request."""

    inputs: list[RequestedInput]
    id: str = ""
    parameters: RequestParameters = RequestParameters()
    outputs: list[RequestedOutput] = []


_decode = msgspec.json.Decoder(InferRequest).decode


def read_request(text: bytes | memoryview) -> InferRequest:
    """Return the request in *text*.

    :raises InputError: it is JSON, but not a request.
    :raises BodyMalformed: it is not JSON.
    """
    try:
        return _decode(text)
    except msgspec.ValidationError as error:
        raise InputError(f"request: {error}".replace("`", "")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyMalformed(f"request: {error}") from None
