# SPDX-License-Identifier: Apache-2.0
"""Schemas of inputs and outputs: each type has its own, whatever others are called."""

import dataclasses
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from msgspec import Struct
from pydantic import BaseModel, Field, computed_field, create_model
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tests.worker.batches import loaded, prediction, service_of


class Renamed(BaseModel):
    size: int = Field(validation_alias="Size", serialization_alias="SIZE")

    @computed_field
    def double(self) -> int:
        return 2 * self.size


class Holder(Struct):
    held: Renamed


class Plain(BaseModel):
    size: int = 1


@pydantic_dataclass
class Parcel:
    weight: int = Field(gt=0, serialization_alias="w", validation_alias="W")


class User(Struct):
    of_struct: int


def model(name, field, type_: Any = int, module="made"):
    return create_model(name, __module__=module, **{field: (type_, ...)})


UserOfA, UserOfB = model("User", "of_a", module="a"), model("User", "of_b", module="b")
InnerOfA, InnerOfB = model("Inner", "of_a", module="a"), model("Inner", "of_b", module="b")
Left, Right = model("Left", "inner", InnerOfA), model("Right", "inner", InnerOfB)
Outer = model("Inner", "inner", InnerOfA, module="c")


def echoing(given, got=None):
    """Return a service that answers what came."""

    def predict(self, batch):
        return batch

    predict.__annotations__ = {"batch": list[given], "return": list[got or given]}
    return service_of(predict)


def with_definitions(service):
    """Return the schema of an input and that of an output, each with what it refers to."""
    interface = loaded(service).interface
    return tuple(
        {**schema, "$defs": interface.schema_definitions}
        for schema in (interface.input_schema, interface.output_schema)
    )


def is_valid(value, schema):
    try:
        Draft202012Validator(schema).validate(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (Renamed, {"Size": 2}),
        (list[Renamed], [{"Size": 2}]),
        (Holder, {"held": {"Size": 2}}),
        (dict[str, Holder], {"a": {"held": {"Size": 2}}}),
        (Parcel, {"W": 2}),
    ],
    ids=str,
)
def test_a_model_that_is_written_otherwise_than_read_is_described_as_both(given, value):
    service = echoing(given)
    read, written = with_definitions(service)
    answered = prediction(service, value)

    assert answered != value
    assert [is_valid(value, read), is_valid(answered, written)] == [True, True]
    assert [is_valid(answered, read), is_valid(value, written)] == [False, False] or given is Parcel


def test_a_model_that_is_written_as_it_is_read_is_described_once():
    interface = loaded(echoing(Plain)).interface

    assert interface.input_schema == interface.output_schema == {"$ref": "#/$defs/Plain"}
    assert list(interface.schema_definitions) == ["Plain"]


class Pair(Struct):
    one: UserOfA
    other: UserOfB


class Mixed(Struct):
    one: User
    other: UserOfA


@dataclasses.dataclass
class Sides:
    left: Left
    right: Right


A, B, STRUCT = {"of_a": 1}, {"of_b": 1}, {"of_struct": 1}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (Pair, {"one": A, "other": B}),
        (Mixed, {"one": STRUCT, "other": A}),
        (tuple[User, UserOfA, UserOfB], [STRUCT, A, B]),
        (Sides, {"left": {"inner": A}, "right": {"inner": B}}),
        (Outer, {"inner": A}),
        (tuple[Outer, InnerOfB], [{"inner": A}, B]),
    ],
    ids=str,
)
def test_types_of_one_name_have_a_schema_each(given, value):
    wrong = msgspec.json.decode(msgspec.json.encode(value).replace(b"of_a", b"of_c"))

    for schema in with_definitions(echoing(given)):
        assert is_valid(value, schema)
        assert not is_valid(wrong, schema)


@pytest.mark.parametrize(
    ("given", "got", "read", "written"),
    [
        (UserOfA, UserOfB, A, B),
        (User, UserOfB, STRUCT, B),
        (UserOfA, User, A, STRUCT),
        (Left, Right, {"inner": A}, {"inner": B}),
        (Pair, tuple[User, UserOfB], {"one": A, "other": B}, [STRUCT, B]),
    ],
    ids=str,
)
def test_so_have_an_input_and_an_output_of_one_name(given, got, read, written):
    schemas = with_definitions(echoing(given, got))

    assert [is_valid(read, each) for each in schemas] == [True, False]
    assert [is_valid(written, each) for each in schemas] == [False, True]


def test_the_second_of_a_name_gets_a_number():
    definitions = loaded(echoing(Mixed)).interface.schema_definitions

    assert definitions["Mixed"]["properties"] == {
        "one": {"$ref": "#/$defs/User-2"},
        "other": {"$ref": "#/$defs/User"},
    }
    assert sorted(definitions) == ["Mixed", "User", "User-2"]


def test_the_members_that_a_discriminator_names_are_found_under_their_new_names():
    class User(Struct, tag=True):
        x: int

    class Other(Struct, tag=True):
        y: int

    members = User | Other
    interface = loaded(echoing(tuple[UserOfA, members])).interface
    mapping = interface.input_schema["prefixItems"][1]["discriminator"]["mapping"]

    assert mapping == {"User": "#/$defs/User-2", "Other": "#/$defs/Other"}
