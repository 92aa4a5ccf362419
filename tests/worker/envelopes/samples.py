# SPDX-License-Identifier: Apache-2.0
"""Envelopes for the tests, named by import strings as those of plugins are."""

import json

import numpy as np

from servekit.errors import ClientError
from servekit.extension import (
    EncodedInput,
    EncodedResponse,
    Envelope,
    ListInput,
    PlainRequest,
    Rows,
)

__all__ = [
    "Arrays",
    "Bare",
    "NotOne",
    "Plain",
    "Raw",
    "Scripted",
    "Several",
    "Split",
    "Stacked",
    "Whole",
]


class Bare(Envelope):
    """A list of inputs in JSON; the answer is the list of outputs."""

    def decode(self, request):
        return json.loads(bytes(request.body))

    def encode(self, request, outputs):
        return EncodedResponse(body=self.codecs.write("application/json", outputs))

    def encode_output(self, request, output):
        return f"<{output}>".encode()

    def encode_end(self, request):
        return b"."


class Several(Bare):
    """Streams of several inputs; the output 3 and the letter ``#`` cannot be written."""

    streams_several_inputs = True

    def encode_output(self, request, output):
        if output in (3, "#"):
            raise KeyError("x")
        return f"<{request.place}:{output}>".encode()

    def encode_input_end(self, request):
        return f"[{request.place}]".encode()


class Raw(Bare):
    """Every line is an input, as the model would read it."""

    def decode(self, request):
        header = request.content_type or "application/json"
        return [EncodedInput(header, line) for line in bytes(request.body).splitlines()]


class Scripted(Bare):
    """Does what its parameters say."""

    def decode(self, request):
        if "decode" in request.parameters:
            raise {"refuse": ClientError("no"), "fail": KeyError("x")}[request.parameters["decode"]]
        request.state = len(request.body)
        return [f"{request.identity.name}{request.accept}"] if request.identity else ["a"]

    def encode(self, request, outputs):
        kind = request.parameters.get("encode", "")
        if kind == "refuse":
            raise ClientError("cannot be written")
        if kind == "fail":
            raise KeyError("x")
        if kind == "nonsense":
            return b"bytes"
        if kind == "pieces":
            size = int(request.parameters["size"])
            return EncodedResponse(body=[b"ab", memoryview(bytearray(size - 2))], media_type="a/b")
        return EncodedResponse(
            body=f"{outputs[0]} {request.state}".encode(),
            media_type="text/plain",
            status=int(kind) if kind else None,
            headers={"x-own": "1"} if kind else {},
        )


class Split(Bare):
    """The input says whether other workers predict, and the response whether they did."""

    def decode(self, request):
        return [request.is_split]

    def encode(self, request, outputs):
        return super().encode(request, [*outputs, request.is_split])


class Arrays(Bare):
    """The body is one array of float32, in place."""

    def decode(self, request):
        return [np.frombuffer(request.body, np.float32)]


class Stacked(Bare):
    """An object of arrays with a batch axis; the answer has the outputs, and how many there are."""

    def decode(self, request):
        fields = json.loads(bytes(request.body))
        arrays = {name: np.array(each) for name, each in fields.items()}
        return [Rows(arrays, max(map(len, arrays.values()), default=0))]

    def encode(self, request, outputs):
        (rows,) = outputs
        arrays = {name: each.tolist() for name, each in rows.values.items()}
        return EncodedResponse(body=json.dumps({"count": rows.count, **arrays}).encode())


class Endless(Bare):
    """More rows than the body can hold."""

    def decode(self, request):
        return [Rows({}, 2**60)]


class NotOne:
    """Not an envelope."""


class Whole(Bare):
    """The body is the one input, as the model would read it."""

    def decode(self, request):
        return [EncodedInput(request.content_type, request.body)]


class Plain(Bare):
    """A number is plain; responses to it begin with ``plain``, unless the parameters say more."""

    def decode(self, request):
        request.state = "opened"
        return super().decode(request)

    def decode_plain(self, body, parameters):
        if parameters.get("decode") == "fail":
            raise KeyError("x")
        if parameters.get("decode") == "lists":
            return PlainRequest(ListInput(json.loads(body)), parameters)
        return PlainRequest(json.loads(body), parameters) if bytes(body).isdigit() else None

    def encode_plain(self, states, outputs):
        if any(state.get("encode") == "fail" for state in states):
            raise KeyError("x")
        pairs = zip(states, outputs, strict=True)
        return [self._response(state.get("encode", ""), output) for state, output in pairs]

    def _response(self, kind, output):
        if kind == "none" or not isinstance(output, int):
            return None
        if kind == "whole":
            return EncodedResponse(body=[b"a", b"b"], media_type="a/b", headers={"x-own": "1"})
        if kind == "head":
            return EncodedResponse(body=b"a", headers={"content-length": "9"})
        if kind == "text":
            return "not bytes"
        return b"plain %d" % output + bytes(int(kind or 0))
