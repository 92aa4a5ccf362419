# SPDX-License-Identifier: Apache-2.0
"""Messages like others before them are read and written as all others are, with less work."""

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="pip install 'servekit-oip[grpc]'")

from servekit_oip.grpc.envelope import GrpcMessages
from servekit_oip.grpc.messages import message_class

from servekit.extension import EnvelopeRequest, ModelView, Rows
from servekit.ipc.table import Interface

Request, Response = message_class("ModelInferRequest"), message_class("ModelInferResponse")
ROW = np.array([1.5, 2.5], np.float32)
Y, Z = ("y", "float64", []), ("z", "int32", [2])


def entry(name, dtype, shape):
    return {"name": name, "dtype": dtype, "shape": shape}


def envelope(*outputs, inputs=(("x", "float32", [2]),)):
    sides = {"inputs": inputs, "outputs": outputs}
    signature = {side: [entry(*each) for each in entries] for side, entries in sides.items()}
    model = ModelView(name="m", version="1", interface=Interface(signature=signature))
    return GrpcMessages(model, None)


def message(row=ROW, *, wanted=(), id_="", rows=1, **tensor):
    asked = Request(model_name="m", id=id_)
    asked.inputs.add(**{"name": "x", "datatype": "FP32", "shape": [rows, row.size]} | tensor)
    for name, classes in wanted:
        asked.outputs.add(name=name).parameters["classification"].int64_param = classes
        if not classes:
            del asked.outputs[-1].parameters["classification"]
    asked.raw_input_contents.append(np.tile(row, rows).tobytes())
    return asked.SerializeToString()


def opened(found, body, output):
    """Return the response to *body* by the way of all requests."""
    request = EnvelopeRequest(
        body=body, content_type="", accept="", request_id="", parameters={}, is_stream=False
    )
    found.decode(request)
    values = output if isinstance(output, dict) else {"y": output}
    rows = Rows({name: np.asarray(value)[np.newaxis] for name, value in values.items()}, 1)
    return Response.FromString(b"".join(found.encode(request, [rows]).body))


@pytest.mark.parametrize(
    ("outputs", "output", "how"),
    [
        pytest.param([Y], np.float64(4), {}, id="a number"),
        pytest.param([Y], {"y": np.float64(4)}, {}, id="a number by its name"),
        pytest.param([Y], np.float32(4), {}, id="a number of another dtype"),
        pytest.param([Y], 4.5, {}, id="a float"),
        pytest.param([Z], {"z": np.int64([1, -2])}, {}, id="an array of another dtype"),
        pytest.param([Y], np.float64(4), {"id_": "7"}, id="an id"),
        pytest.param([Y], np.float64(4), {"wanted": [("y", 0)]}, id="an output that is asked for"),
        pytest.param([Y, Z], {"y": np.float64(4), "z": np.int32([1, 2])}, {}, id="two outputs"),
        pytest.param(
            [Y, Z],
            {"y": np.float64(4), "z": np.int32([1, 2])},
            {"wanted": [("z", 0)], "id_": "7"},
            id="one of two",
        ),
    ],
)
def test_the_same_request_again(outputs, output, how):
    found, body = envelope(*outputs), message(**how)
    assert found.decode_plain(body, {}) is None
    expected = opened(found, body, output)

    plain = found.decode_plain(memoryview(body), {})
    (response,) = found.encode_plain([plain.state], [output])

    assert plain.input["x"].tolist() == ROW.tolist()
    assert Response.FromString(response) == expected


def test_requests_of_a_batch_get_their_own_elements_and_ids():
    found = envelope(Y)
    opened(found, message(), np.float64(0))
    plain = [found.decode_plain(message(id_=str(number)), {}) for number in range(3)]
    outputs = [np.float64(number) for number in range(3)]
    responses = found.encode_plain([each.state for each in plain], outputs)

    answers = [Response.FromString(each) for each in responses]
    assert [each.id for each in answers] == ["0", "1", "2"]
    contents = [np.frombuffer(each.raw_output_contents[0], np.float64)[0] for each in answers]
    assert contents == outputs


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"rows": 2}, id="two rows"),
        pytest.param({"wanted": [("y", 2)]}, id="classes"),
    ],
)
def test_other_requests_are_left_to_the_way_of_all(how):
    found, body = envelope(("y", "float64", [2])), message(**how)
    opened(found, body, ROW.astype(float))

    assert found.decode_plain(body, {}) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff\xff", id="no message"),
        pytest.param(message()[:-1], id="cut off"),
        pytest.param(message(ROW[:1], shape=[1, 2]), id="too few bytes"),
    ],
)
def test_mistakes_are_left_to_the_way_of_all(body):
    found = envelope(Y)
    opened(found, message(), np.float64(0))

    assert found.decode_plain(body, {}) is None


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(4, id="an int"),
        pytest.param(np.array("a"), id="another kind"),
        pytest.param(np.zeros(2), id="another shape"),
        pytest.param({"x": np.float64(4)}, id="another name"),
        pytest.param(None, id="nothing"),
    ],
)
def test_outputs_that_have_to_be_looked_at(output):
    found = envelope(Y)
    opened(found, message(), np.float64(0))
    plain = found.decode_plain(message(), {})

    assert next(iter(found.encode_plain([plain.state] * 2, [output, np.float64(4)]))) is None
