# SPDX-License-Identifier: Apache-2.0
"""Requests with one row become native ones, if they are plain; others are left to slower ways."""

import json

import numpy as np
import pytest
from servekit_oip.messages import read_request
from servekit_oip.one_row import OneRowReader, OneRowWriter
from servekit_oip.signature import model_tensors

from servekit.extension import ModelView
from servekit.ipc.table import Interface


def tensors(*inputs, outputs=(("y", "float64", []),)):
    def entry(name, dtype, shape):
        return {"name": name, "dtype": dtype, "shape": shape}

    sides = {"inputs": [entry(*each) for each in inputs]}
    signature = {**sides, "outputs": [entry(*each) for each in outputs]}
    return model_tensors(ModelView(name="m", version="1", interface=Interface(signature=signature)))


def asked(shape, data, datatype="FP32", name="x", **more):
    tensor = {"name": name, "datatype": datatype, "shape": shape, "data": data} | more
    return read_request(json.dumps({"inputs": [tensor]}).encode()).inputs


FIXED, OPEN, LONE = ("x", "float32", [2]), ("x", "float32", [-1]), ("x", "float32", [])
TEXTS = ("x", "str", [2])


@pytest.mark.parametrize(
    ("declared", "inputs", "body"),
    [
        pytest.param(FIXED, asked([1, 2], [1, 2.5]), {"x": [1, 2.5]}, id="a fixed list"),
        pytest.param(OPEN, asked([1, 3], [1, 2, 3]), {"x": [1, 2, 3]}, id="an open list"),
        pytest.param(LONE, asked([1], [7]), {"x": 7}, id="a number"),
        pytest.param(TEXTS, asked([1, 2], ["a,", "]"], "BYTES"), {"x": ["a,", "]"]}, id="strings"),
        pytest.param(FIXED, asked([2, 2], [1, 2, 3, 4]), None, id="two rows"),
        pytest.param(FIXED, asked([1, 2], [[1, 2]]), None, id="nested"),
        pytest.param(OPEN, asked([1, 2], [1, 2, 3]), None, id="another count"),
        pytest.param(LONE, asked([1], [7, 8]), None, id="two numbers"),
        pytest.param(FIXED, asked([1, 2], "12"), None, id="no list"),
        pytest.param(FIXED, asked([1, 2], [1, 2], "FP64"), None, id="another datatype"),
        pytest.param(FIXED, asked([1, 2], [1, 2], name="z"), None, id="another name"),
        pytest.param(FIXED, asked([1, 2], [1, 2]) * 2, None, id="twice"),
    ],
)
def test_json(declared, inputs, body):
    found = OneRowReader(tensors(declared)).from_json(inputs)

    assert (None if found is None else json.loads(found.body)) == body


@pytest.mark.parametrize(
    ("declared", "shape", "is_native"),
    [
        (FIXED, [1, 2], True),
        (OPEN, [1, 2], True),
        (FIXED, [2, 1], False),
        (("x", "float32", [-1, -1]), [1, 2, 1], False),
        (("x", "bool", [8]), [1, 8], False),
        (TEXTS, [1, 2], False),
    ],
)
def test_bytes(declared, shape, is_native):
    found = OneRowReader(tensors(declared)).from_bytes(shape, bytes(8))

    assert (found is not None) == is_native


@pytest.mark.parametrize(
    ("declared", "output", "data"),
    [
        pytest.param(("y", "float64", []), 1.5, [1.5], id="a number of Python"),
        pytest.param(("y", "float64", []), np.float64(1.5), [1.5], id="a number of numpy"),
        pytest.param(("y", "float64", []), np.float32(1.5), [1.5], id="a shorter one"),
        pytest.param(("y", "float64", []), {"y": np.float64(1.5)}, [1.5], id="by name"),
        pytest.param(("y", "int32", [2]), np.array([1, 2], np.int16), [1, 2], id="an array"),
        pytest.param(("y", "int32", [1, 2]), np.array([[1, 2]], np.int32), [1, 2], id="nested"),
        pytest.param(("y", "float32", []), np.float64(0.1), None, id="a longer one"),
        pytest.param(("y", "int32", [2]), np.array([1, 2, 3]), None, id="another shape"),
        pytest.param(("y", "float64", []), float("nan"), None, id="NaN"),
        pytest.param(("y", "float64", []), {"z": 1.5}, None, id="another name"),
        pytest.param(("y", "float64", [-1]), np.array([1.5]), None, id="an open shape"),
        pytest.param(("y", "str", []), "a", None, id="a string"),
    ],
)
def test_responses(declared, output, data):
    writer = OneRowWriter(tensors(FIXED, outputs=[declared]), {"model_name": "m"})
    text = writer.write("7", output)
    found = json.loads(text) if text is not None else None

    assert (found["outputs"][0]["data"] if found else None) == data
    assert found is None or (found["model_name"], found["id"]) == ("m", "7")
