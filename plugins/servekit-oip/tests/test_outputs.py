# SPDX-License-Identifier: Apache-2.0
"""Outputs that requests name are checked before the model predicts, alike over HTTP and gRPC."""

import json

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")

from servekit_oip.envelope import OipRequests
from servekit_oip.grpc.envelope import GrpcMessages
from servekit_oip.grpc.messages import message_class

from servekit.errors import InputError
from servekit.extension import EnvelopeRequest, ModelView, Rows
from servekit.ipc.table import Interface
from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.envelopes.table import WorkerCodecs

INFER = {"verb": "infer"}
Request, Response = message_class("ModelInferRequest"), message_class("ModelInferResponse")


def entry(name, dtype, shape):
    return {"name": name, "dtype": dtype, "shape": shape}


INPUTS = [entry("x", "float32", [2])]
OUTPUTS = [entry("y", "float64", [2]), entry("text", "str", []), entry("is_odd", "bool", [])]
STREAMS = ("application/json", "text/event-stream")
LAST = [entry("z", "float64", [2])]


def http(wanted):
    """Return the body of a request for outputs, each with its number of classes."""
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    outputs = [
        {"name": name, "parameters": {"classification": classes} if classes else {}}
        for name, classes in wanted
    ]
    return json.dumps({"inputs": [tensor], "outputs": outputs}).encode()


def grpc(wanted):
    """Return the same as a message."""
    asked = Request(model_name="m")
    asked.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    asked.raw_input_contents.append(np.float32([1, 2]).tobytes())
    for name, classes in wanted:
        output = asked.outputs.add(name=name)
        if classes:
            output.parameters["classification"].int64_param = classes
    return asked.SerializeToString()


TRANSPORTS = pytest.mark.parametrize(
    ("kind", "body_of"),
    [pytest.param(OipRequests, http, id="HTTP"), pytest.param(GrpcMessages, grpc, id="gRPC")],
)


def envelope(kind, inputs=INPUTS, outputs=OUTPUTS, produces=()):
    interface = Interface(signature={"inputs": inputs, "outputs": outputs}, produces=[*produces])
    codecs = WorkerCodecs(CodecTable(create_plugin_manager(discover=False)))
    return kind(ModelView(name="m", version="1", interface=interface), codecs)


def request_of(body, **how):
    fields = {"content_type": "", "accept": "", "request_id": "r", "parameters": INFER}
    return EnvelopeRequest(body=body, **fields, **how)


@TRANSPORTS
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        pytest.param([("nope", 0)], "unexpected output 'nope'; the model has y, text", id="name"),
        pytest.param([("y", 0), ("nope", 2)], "unexpected output 'nope'", id="the second one"),
        pytest.param([("text", 1)], "only numbers can be classified", id="classes of texts"),
        pytest.param([("is_odd", 1)], "only numbers", id="classes of truth values"),
    ],
)
def test_outputs_that_the_model_does_not_have_are_refused_when_the_request_is_read(
    kind, body_of, wanted, text
):
    made, body = envelope(kind), body_of(wanted)

    with pytest.raises(InputError, match=text):
        made.decode(request_of(body))
    assert made.decode_plain(body, INFER) is None


def test_a_number_of_classes_is_a_number():
    asked = Request.FromString(grpc([("y", 1)]))
    asked.outputs[0].parameters["classification"].string_param = "1"

    with pytest.raises(InputError, match="classification is not an int64_param"):
        envelope(GrpcMessages).decode(request_of(asked.SerializeToString()))


@TRANSPORTS
@pytest.mark.parametrize("wanted", [[], [("y", 0)], [("y", 1), ("text", 0)]])
def test_outputs_that_it_has_are_not(kind, body_of, wanted):
    assert envelope(kind).decode(request_of(body_of(wanted)))


def test_a_small_request_that_names_its_outputs_is_read_in_one_step():
    made = envelope(OipRequests)

    assert made.decode_plain(http([("y", 0)]), INFER).state == ("", [("y", False, 0)])
    assert made.decode_plain(http([("y", 1)]), INFER) is None


@TRANSPORTS
@pytest.mark.parametrize("wanted", [[], [("z", 0)]])
def test_only_the_last_of_several_workers_knows_the_outputs(kind, body_of, wanted):
    found = written_by_the_last(kind, body_of(wanted))
    body = found.body if isinstance(found.body, bytes) else b"".join(found.body)
    told = json.loads(body) if kind is OipRequests else Response.FromString(body)

    if kind is OipRequests:
        assert told["outputs"][0]["data"] == [3.0, 4.0]
    else:
        assert np.frombuffer(told.raw_output_contents[0]).tolist() == [3.0, 4.0]


@TRANSPORTS
def test_it_refuses_those_that_it_does_not_have(kind, body_of):
    with pytest.raises(InputError, match="unexpected output 'y'; the model has z"):
        written_by_the_last(kind, body_of([("y", 0)]))


@TRANSPORTS
def test_a_response_has_no_room_for_the_outputs_of_a_stream(kind, body_of):
    made = envelope(kind, produces=STREAMS)

    with pytest.raises(InputError, match="use generate_stream, or ModelStreamInfer"):
        made.decode(request_of(body_of([])))


@TRANSPORTS
def test_only_the_last_of_several_workers_may_not_stream(kind, body_of):
    assert written_by_the_last(kind, body_of([]), first_produces=STREAMS)
    with pytest.raises(InputError, match=r"use generate$"):
        written_by_the_last(kind, body_of([]), last_produces=STREAMS)


def written_by_the_last(kind, body, first_produces=(), last_produces=()):
    """Return the response to a request that the worker of another stage has read."""
    first = envelope(kind, produces=first_produces)
    last = envelope(kind, OUTPUTS, LAST, last_produces)
    read, write = request_of(body, is_split=True), request_of(b"", is_split=True)
    first.decode(read)
    write.state = json.loads(json.dumps(read.state))  # on its way, tuples become lists
    return last.encode(write, [Rows({"z": np.array([[3.0, 4.0]])}, 1)])
