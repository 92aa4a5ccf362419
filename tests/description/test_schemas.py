# SPDX-License-Identifier: Apache-2.0
"""A signature as JSON Schema, and JSON Schema in the words of Swagger 2.0."""

import jsonschema
import pytest

from servekit.description.interface import TensorType, describe
from servekit.description.schemas import input_schema, tensor_schema
from servekit.description.swagger_schemas import swagger_schema
from servekit.ipc.table import Interface

LONE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}]}


@pytest.mark.parametrize(
    ("dtype", "shape", "value", "is_valid"),
    [
        ("float32", [2, 2], [[1, 2], [3, 4.5]], True),
        ("float32", [2, 2], [[1, 2]], False),
        ("float32", [-1, 2], [], True),
        ("float32", [], 1.5, True),
        ("float32", [], "1.5", False),
        ("int64", [], 2**60, True),
        ("int64", [], 1.5, False),
        ("int8", [], -129, False),
        ("uint8", [], 255, True),
        ("uint8", [], 256, False),
        ("uint64", [], 2**64 - 1, True),
        ("bool", [], True, True),
        ("bool", [], 1, False),
        ("str", [], "a", True),
        ("str", [], 1, False),
        ("complex64", [], "of a dtype unknown here nothing is said", True),
    ],
)
def test_the_schema_of_a_tensor_takes_what_fits_its_dtype_and_shape(dtype, shape, value, is_valid):
    schema = tensor_schema(TensorType("x", dtype, shape))

    assert jsonschema.Draft202012Validator(schema).is_valid(value) is is_valid


@pytest.mark.parametrize(("value", "is_valid"), [([1, 2], True), ({"x": [1, 2]}, True), (3, False)])
def test_a_lone_input_may_come_with_or_without_its_name(value, is_valid):
    schema = input_schema(describe({"name": "m", "signature": LONE}), "#/")

    assert jsonschema.Draft202012Validator(schema).is_valid(value) is is_valid


def test_a_loaded_service_that_reads_its_inputs_itself_takes_anything():
    known = Interface(signature=LONE, consumes=["application/json"])
    schema = input_schema(describe({"name": "m", "signature": LONE}, known), "#/")

    assert jsonschema.Draft202012Validator(schema).is_valid({"neither": "nor"})
    assert "x, float32 [2]" in schema["description"]


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        pytest.param(True, {}, id="true takes everything"),
        pytest.param({"$ref": "#/d/X", "title": "t"}, {"$ref": "#/d/X"}, id="a reference is alone"),
        pytest.param({"const": 3}, {"enum": [3]}, id="a constant is a choice of one"),
        pytest.param({"type": "null"}, {"x-nullable": True}, id="null has no name of its own"),
        pytest.param(
            {"type": ["string", "null"], "maxLength": 3},
            {"type": "string", "maxLength": 3, "x-nullable": True},
            id="a nullable type keeps what else is said of it",
        ),
        pytest.param(
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "title": "t"},
            {"title": "t", "type": "integer", "x-nullable": True},
            id="null as an alternative is not one",
        ),
        pytest.param(
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "d"},
            {"description": "d"},
            id="real alternatives cannot be said",
        ),
        pytest.param(
            {"type": "number", "exclusiveMinimum": 0, "maximum": 0},
            {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 0},
            id="an exclusive bound is a bound and a flag, and zero is a bound",
        ),
        pytest.param(
            {"type": "array", "prefixItems": [{"type": "integer"}], "minItems": 1},
            {"type": "array", "items": {}, "minItems": 1},
            id="a tuple is a list of anything",
        ),
        pytest.param(
            {"type": "object", "required": [], "patternProperties": {"a": {}}},
            {"type": "object"},
            id="what cannot be said is left out",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"const": 1}},
            {"type": "object", "additionalProperties": {"enum": [1]}},
            id="inner schemas are reduced too",
        ),
        pytest.param(
            {"type": "integer", "default": None}, {"type": "integer"}, id="defaults are left out"
        ),
    ],
)
def test_json_schema_is_reduced_to_what_swagger_2_can_say(schema, reduced):
    assert swagger_schema(schema) == reduced
