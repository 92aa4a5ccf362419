# SPDX-License-Identifier: Apache-2.0
"""A stage gets values of another stage as its annotations declare them."""

import dataclasses
import datetime
import enum
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from PIL import Image as Pillow

from servekit.ipc.batches import MODEL_VALUE, VALUE
from servekit.types import Audio, File, Image
from servekit.worker.codecs.value import model_value, value
from tests.worker.batches import prediction, service_of


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: set[str] = set()


class Level(enum.Enum):
    HIGH = "high"


@dataclasses.dataclass
class Crop:
    at: tuple[int, int]
    level: Level = Level.HIGH


class CropStruct(msgspec.Struct):
    at: tuple[int, int]
    level: Level


class Picture(msgspec.Struct):
    image: Image
    sound: Audio | None = None


PICTURE = Pillow.new("L", (2, 1))
DAY = datetime.date(2026, 1, 1)


def names(value):
    """Return the names of the types in *value*."""
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        fields = {name: getattr(value, name) for name in type(value).__annotations__}
        return [type(value).__name__, names(fields)]
    if isinstance(value, dict):
        return {str(key): names(each) for key, each in value.items()}
    return type(value).__name__


CASES = [
    (Cat(9), Cat | Dog, ["Cat", {"lives": "int"}]),
    (Dog({"sit"}), Cat | Dog, ["Dog", {"tricks": "set"}]),
    (Crop((1, 2)), Crop, ["Crop", {"at": "tuple", "level": "Level"}]),
    (Crop((1, 2)), CropStruct, ["CropStruct", {"at": "tuple", "level": "Level"}]),
    (CropStruct((1, 2), Level.HIGH), Crop, ["Crop", {"at": "tuple", "level": "Level"}]),
    ({"at": [1, 2], "level": "high"}, Crop, ["Crop", {"at": "tuple", "level": "Level"}]),
    (Crop((1, 2)), dict[str, Any], {"at": "list", "level": "str"}),
    (DAY, str, "str"),
    (str(DAY), datetime.date, "date"),
    ((1, 2), list[int], "list"),
    ([1, 2], tuple[int, int], "tuple"),
    ({1}, list[int], "list"),
    (Level.HIGH, str, "str"),
    (Level.HIGH, Level, "Level"),
    ({"image": PICTURE}, Picture, ["Picture", {"image": "Image", "sound": "NoneType"}]),
    (PICTURE, Image, "Image"),
    (File("a", "text/plain", b"a"), File, "File"),
    (Crop((1, 2)), Any, ["Crop", {"at": "tuple", "level": "Level"}]),
]


def shown(value):
    """Return the id of a case: without addresses, so that every process has the same."""
    return re.sub(r" at 0x\w+", "", repr(value))


@pytest.mark.parametrize(("given", "declared", "expected"), CASES, ids=shown)
def test_values_of_a_stage_of_the_same_model(given, declared, expected):
    def predict(self, batch: list[declared]):
        return [names(each) for each in batch]

    body = model_value.encode(given)
    assert prediction(service_of(predict), body, MODEL_VALUE) == expected


@pytest.mark.parametrize(("given", "declared", "expected"), CASES[:-1], ids=shown)
def test_values_of_another_model(given, declared, expected):
    def predict(self, batch: list[declared]):
        return [names(each) for each in batch]

    assert prediction(service_of(predict), value.encode(given), VALUE) == expected


@pytest.mark.parametrize("given", [(1, 2), [1, 2], np.array([1, 2]), {"x": (1, 2)}])
def test_a_signature_takes_lists_tuples_and_arrays(given):
    signature = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}
    made = service_of(lambda self, batch: batch["x"].sum(axis=1), signature)

    assert prediction(made, model_value.encode(given), MODEL_VALUE) == 3


def test_what_is_not_declared_is_refused():
    def predict(self, batch: list[int]):
        return batch

    found = prediction(service_of(predict), model_value.encode(Crop((1, 2))), MODEL_VALUE)
    assert found == ("InputError", "expected int, got object")
