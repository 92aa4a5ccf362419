# SPDX-License-Identifier: Apache-2.0
"""Requests with one row are read and written in one step, exactly as the general way does it."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servekit_oip.datatypes import OF_DTYPE
from servekit_oip.envelope import OipRequests
from servekit_oip.messages import ALL_BINARY, ALL_JSON, USUAL

from servekit.errors import RequestError
from servekit.extension import EncodedInput, EnvelopeRequest, ListInput, ModelView
from servekit.ipc.table import Interface
from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.envelopes.table import WorkerCodecs

CODECS = WorkerCodecs(CodecTable(create_plugin_manager(discover=False)))
INFER = {"verb": "infer"}
DTYPES = ("bool", "uint8", "uint64", "int8", "int64", "float16", "float32", "float64", "str")
NUMBERS = {"bool": st.booleans(), "str": st.text(max_size=4)}
ODD = st.sampled_from([0, -1, 300, 2**63, 2**70, 0.5, 1e300, -1e39, 65520.0, True, None, "a", [1]])
SIZES = st.sampled_from([1, 2, 3, -1])
SHAPES = st.lists(SIZES, max_size=2)


def entry(name, dtype, shape):
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def envelope(inputs, outputs=(("y", "float64", []),)):
    signature = {
        "inputs": [entry(*each) for each in inputs],
        "outputs": [entry(*each) for each in outputs],
    }
    model = ModelView(name="m%", version="1", interface=Interface(signature=signature))
    return OipRequests(model, CODECS)


def request_of(body, **parameters):
    fields = {"content_type": "", "accept": "", "request_id": "r"}
    return EnvelopeRequest(body=body, parameters=INFER | parameters, **fields)


def arrays(input_, declared):
    """Return what a model gets of an input, by name."""
    ((name, dtype, shape), *_) = declared
    if isinstance(input_, EncodedInput):
        return {name: np.frombuffer(input_.body, dtype).reshape(shape)}
    values = input_.values if isinstance(input_, ListInput) else input_
    dtypes = {name: object if dtype == "str" else dtype for name, dtype, _ in declared}
    return {name: np.asarray(values[name], dtypes[name]) for name in values}


def check(declared, body, *, is_plain=None, **parameters):
    """Compare both ways to read *body*."""
    made = envelope(declared)
    plain = made.decode_plain(body, INFER | parameters)
    if is_plain is not None:
        assert (plain is not None) == is_plain, body
    if plain is None:
        return
    request = request_of(body, **parameters)
    (general,) = made.decode(request)
    found, expected = (arrays(each, declared) for each in (plain.input, general))

    assert plain.state == request.state
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        if array.dtype == object:
            assert array.tolist() == expected[name].tolist()
        else:
            assert array.tobytes() == expected[name].tobytes()


def told(declared, *, rows=1, values=None):
    """Return the tensors of a request; open axes are 2 long."""
    tensors = []
    for name, dtype, shape in declared:
        sizes = [rows, *(2 if size == -1 else size for size in shape)]
        count = int(np.prod(sizes))
        data = (
            [True] * count if dtype == "bool" else ["a"] * count if dtype == "str" else [7] * count
        )
        data = data if values is None else (values * count)[:count]
        datatype = OF_DTYPE[dtype].name
        tensors.append({"name": name, "datatype": datatype, "shape": sizes, "data": data})
    return tensors


SIGNATURES = st.lists(st.tuples(st.sampled_from(DTYPES), SHAPES), min_size=1, max_size=2).map(
    lambda found: [(f"x{place}", *each) for place, each in enumerate(found)]
)


@given(SIGNATURES, st.text(max_size=3), st.booleans())
def test_small_requests_with_one_row_are_plain(declared, id_, nested):
    body = {"inputs": told(declared), "id": id_, "other": {"nested": nested}}

    check(declared, json.dumps(body).encode(), is_plain=True)


@given(SIGNATURES, st.data())
def test_whatever_is_read_in_one_step_is_read_alike(declared, data):
    """Elements, shapes and members of any kind, and bytes in any place."""
    tensors = told(
        declared, rows=data.draw(st.integers(1, 2)), values=data.draw(st.lists(ODD) | st.none())
    )
    tensor = data.draw(st.sampled_from(tensors))
    odd = {
        "name": st.sampled_from(["x0", "x1", "z"]),
        "datatype": st.sampled_from(["FP32", "INT8", "BYTES", ""]),
        "shape": st.lists(st.sampled_from([0, 1, 2, -1, 1.0, "1"]), max_size=3),
        "data": st.lists(ODD, max_size=4),
        "parameters": st.sampled_from([{}, None, {"binary_data_size": 4}, {"a": 1}]),
    }
    for name in data.draw(st.sets(st.sampled_from(sorted(odd)), max_size=2)):
        tensor[name] = data.draw(odd[name])
    request = {"inputs": data.draw(st.permutations(tensors) | st.just(tensors[:1]))}
    request["parameters"] = data.draw(st.sampled_from([{}, {"binary_data_output": True}, 1]))
    request["outputs"] = data.draw(
        st.sampled_from(
            [[], [{"name": "y"}], [{"name": "y", "parameters": {"classification": -1}}]]
        )
    )
    text = bytearray(json.dumps(request).encode())
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"1", b"[", b'"', b"\xff"])
        )
    check(declared, bytes(text))


@given(
    st.sampled_from([[2], [-1], [2, -1], []]),
    st.sampled_from(DTYPES[:-1]),
    st.binary(max_size=24),
    st.data(),
)
def test_bytes_are_read_alike(shape, dtype, content, data):
    declared = [("x", dtype, shape)]
    size = data.draw(st.sampled_from([len(content), 4]))
    sizes = [data.draw(st.integers(0, 2)), *(data.draw(st.integers(0, 3)) for _ in shape)]
    tensor = {"name": "x", "datatype": OF_DTYPE[dtype].name, "shape": sizes}
    text = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": size}}]}).encode()
    length = data.draw(st.sampled_from([str(len(text)), "0", "-1", "a", "9" * 30, "٣"]))

    for body in (content, text + content):
        view = memoryview(body)
        found = envelope(declared).decode_plain(view, INFER | {"length": length})
        if found is None:
            continue
        expected = np.frombuffer(content if length != "0" else body, dtype)
        assert bytes(found.input.body) == expected.tobytes()
        assert general_array(declared, view, length).tobytes() == expected.tobytes()


def general_array(declared, body, length):
    (found,) = envelope(declared).decode(request_of(body, length=length))
    return found["x"]


@pytest.mark.parametrize(
    ("dtype", "shape", "is_plain"),
    [
        ("float32", [2], True),
        ("float32", [-1], True),
        ("float64", [1], True),
        ("float32", [3], False),
        ("float32", [-1, -1], False),
        ("bool", [8], False),
        ("str", [2], False),
    ],
)
def test_a_body_that_is_only_bytes(dtype, shape, is_plain):
    found = envelope([("x", dtype, shape)]).decode_plain(bytes(8), INFER | {"length": "0"})

    assert (found is not None) == is_plain
    assert found is None or found.state == ("", ALL_BINARY)


@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_other_verbs_are_left_alone(verb):
    body = json.dumps({"inputs": told([("x", "float32", [2])])}).encode()

    assert envelope([("x", "float32", [2])]).decode_plain(body, {"verb": verb}) is None


def test_the_state_of_a_usual_request_is_one_object():
    """It is compared by identity, for each batch."""
    declared = [("x", "float32", [2])]
    body = json.dumps({"inputs": told(declared)}).encode()

    assert envelope(declared).decode_plain(body, INFER).state is USUAL


# ------------------------------------------------------------ responses

OUTPUTS = st.one_of(
    st.floats(width=32),
    st.sampled_from(
        [np.float64(0.1), np.float32(0.1), np.float16(0.5), np.int8(3), np.bool_(True)]
    ),
    st.sampled_from([np.float64("nan"), np.float64("inf"), np.zeros(2), np.ones(2, np.float32)]),
    st.sampled_from(
        [np.zeros((2, 1)), np.array(1.5), np.array(["a"], object), "a", None, [1.0, 2.0]]
    ),
    st.sampled_from([np.array([1.0, np.nan]), np.array([2**62, -1]), np.array([True, False])]),
)
STATES = st.sampled_from(
    [
        USUAL,
        ("7", ALL_JSON),
        ('"%\n', ALL_JSON),
        ("", ALL_BINARY),
        ("7", ALL_BINARY),
        ("", [("y", False, 0)]),
        ("", [("y", True, 0)]),
        ("", [("y", False, 1)]),
    ]
)


def written(made, state, output):
    """Return the body and the head of the general way; ``None`` if it refuses."""
    request = request_of(b"")
    request.state = state
    try:
        found = made.encode(request, [output])
    except RequestError:
        return None
    except Exception as error:  # the server answers with a 500
        return type(error)
    parts = [found.body] if isinstance(found.body, bytes) else found.body
    return parsed(b"".join(parts), found.headers), found.media_type


def parsed(body, headers):
    """Return the JSON of a response, and the bytes behind it."""
    length = int(headers.get("Inference-Header-Content-Length", len(body)))
    return json.loads(body[:length]), body[length:]


@settings(max_examples=300)
@given(
    st.sampled_from(["float64", "float32", "int64", "bool", "uint8"]),
    st.sampled_from([[], [2], [2, 1], [-1]]),
    st.lists(st.tuples(STATES, OUTPUTS, st.booleans()), min_size=1, max_size=4),
)
def test_whatever_is_written_in_one_step_is_written_alike(dtype, shape, batch):
    made = envelope([("x", "float32", [2])], [("y", dtype, shape)])
    states = [state for state, _, _ in batch]
    outputs = [{"y": output} if is_named else output for _, output, is_named in batch]
    found = made.encode_plain(states, outputs)

    assert len(found) == len(batch)
    for state, output, response in zip(states, outputs, found, strict=True):
        if isinstance(response, bytes):
            assert (parsed(response, {}), "application/json") == written(made, state, output)
        elif response is not None:
            told = parsed(response.body, response.headers), response.media_type
            assert told == written(made, state, output)


@pytest.mark.parametrize(
    ("declared", "output", "data"),
    [
        pytest.param(("y", "float64", []), 1.5, [1.5], id="a number of Python"),
        pytest.param(("y", "float64", []), np.float64(1.5), [1.5], id="a number of numpy"),
        pytest.param(("y", "float64", []), np.float32(1.5), [1.5], id="a shorter one"),
        pytest.param(("y", "float64", []), {"y": np.float64(1.5)}, [1.5], id="by name"),
        pytest.param(("y", "int32", [2]), np.array([1, 2], np.int16), [1, 2], id="an array"),
        pytest.param(("y", "int32", [1, 2]), np.array([[1, 2]], np.int32), [1, 2], id="nested"),
        pytest.param(("y", "bool", []), np.bool_(True), [True], id="a truth value"),
        pytest.param(("y", "float32", []), np.float64(0.1), None, id="a longer one"),
        pytest.param(("y", "int32", [2]), np.array([1, 2, 3]), None, id="another shape"),
        pytest.param(("y", "float64", []), float("nan"), None, id="NaN"),
        pytest.param(("y", "float64", []), {"z": 1.5}, None, id="another name"),
        pytest.param(("y", "float64", [-1]), np.array([1.5]), None, id="an open shape"),
        pytest.param(("y", "str", []), "a", None, id="a string"),
    ],
)
def test_usual_responses(declared, output, data):
    made = envelope([("x", "float32", [2])], [declared])
    (text,) = made.encode_plain([USUAL], [output])
    found = json.loads(text) if text is not None else None

    assert (found["outputs"][0]["data"] if found else None) == data
    assert found is None or found["model_name"] == "m%"


def test_several_outputs_of_a_batch():
    outputs = [("a%b", "int32", []), ("c", "float32", [2])]
    made = envelope([("x", "float32", [2])], outputs)
    batch = [
        {"c": np.array([place, 0.5], np.float32), "a%b": np.int32(place)} for place in range(3)
    ]
    responses = made.encode_plain([USUAL] * 3, [*batch, {"c": 1}][:3])

    for place, response in enumerate(responses):
        told = [each["data"] for each in json.loads(response)["outputs"]]
        assert told == [[place], [place, 0.5]]


def test_a_response_in_bytes():
    made = envelope([("x", "float32", [2])])
    (response,) = made.encode_plain([("7", ALL_BINARY)], [np.float64(2.5)])
    (head, content) = parsed(response.body, response.headers)

    assert (head["id"], head["outputs"][0]["parameters"]) == ("7", {"binary_data_size": 8})
    assert struct.unpack("<d", content) == (2.5,)


def test_a_large_response_in_bytes_is_not_joined():
    made = envelope([("x", "float32", [2])], [("y", "float32", [2000])])
    values = np.arange(2000, dtype=np.float32)
    (response,) = made.encode_plain([("", ALL_BINARY)], [values])
    (text, content) = response.body

    assert np.shares_memory(np.frombuffer(content, np.float32), values)
    assert (parsed(text + bytes(content), response.headers), response.media_type) == written(
        made, ("", ALL_BINARY), values
    )
