# SPDX-License-Identifier: Apache-2.0
"""The JSON of a request for inference. Members that are not here are ignored.

Some clients write null for what they leave out.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from servekit.errors import BodyMalformed, InputError

__all__ = [
    "ALL_BINARY",
    "ALL_JSON",
    "NO_INPUT_PARAMETERS",
    "NO_PARAMETERS",
    "USUAL",
    "InferRequest",
    "OutputsWanted",
    "RequestParameters",
    "RequestedInput",
    "RequestedOutput",
    "State",
    "read_request",
    "wanted_outputs",
]

NO_TEXT = msgspec.Raw()
ALL_JSON, ALL_BINARY = "json", "binary"  #: every output of the model, in one form

#: name, whether it is bytes, and how many classes, of each output; or ``ALL_JSON``, ``ALL_BINARY``
OutputsWanted = str | list[tuple[str, bool, int]]
State = tuple[str, OutputsWanted]  #: the id of a request, and the outputs that it wants
USUAL: State = "", ALL_JSON  #: the state of most requests, as the same object


class InputParameters(Struct, frozen=True):
    """The parameters of one input."""

    binary_data_size: int | None = None  #: bytes of it behind the JSON
    shared_memory_region: str | None = None


NO_INPUT_PARAMETERS = InputParameters()


class RequestedInput(Struct):
    """One input tensor."""

    name: str
    datatype: str
    shape: list[int]
    parameters: InputParameters | None = None
    data: msgspec.Raw = NO_TEXT


class OutputParameters(Struct, frozen=True):
    """The parameters of one output."""

    binary_data: bool | None = None  #: behind the JSON of the response, rather than in it
    classification: int = 0  #: how many of the largest elements, in place of all
    shared_memory_region: str | None = None


class RequestedOutput(Struct):
    """One output tensor that the client wants."""

    name: str
    parameters: OutputParameters | None = None


class RequestParameters(Struct, frozen=True):
    """The parameters of a request."""

    binary_data_output: bool | None = False  #: the default of ``binary_data``


NO_PARAMETERS = RequestParameters()


class InferRequest(Struct):
    """A whole request."""

    inputs: list[RequestedInput]
    id: str | None = ""
    parameters: RequestParameters | None = NO_PARAMETERS
    outputs: list[RequestedOutput] | None = None


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


def wanted_outputs(asked: InferRequest) -> OutputsWanted:
    """Return the outputs that *asked*, or what is like it, wants.

    :raises InputError: one cannot be sent so. Their names are not looked at.
    """
    is_binary = bool((asked.parameters or NO_PARAMETERS).binary_data_output)
    if not asked.outputs:
        return ALL_BINARY if is_binary else ALL_JSON
    return [_asked_for(each, is_binary) for each in asked.outputs]


def _asked_for(output: RequestedOutput, is_binary: bool) -> tuple[str, bool, int]:
    parameters = output.parameters or OutputParameters()
    if parameters.shared_memory_region is not None:
        raise InputError(f"output {output.name!r}: shared memory is not supported")
    if parameters.classification < 0:
        raise InputError(f"output {output.name!r}: classification is below 0")
    if parameters.binary_data is not None:
        is_binary = parameters.binary_data
    return output.name, is_binary, parameters.classification
