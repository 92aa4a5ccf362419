# SPDX-License-Identifier: Apache-2.0
"""Objects of all kinds from stage to stage, each in a process of its own."""

import json
import shutil
from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "models"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    pickling = shutil.copytree(MODELS / "values", tmp_path_factory.mktemp("models") / "pickling")
    toml = pickling / "model.toml"
    text = toml.read_text().replace('"values"', '"pickling"').replace("/v1/", "/v2/")
    toml.write_text(f"pickle = true\n{text}")
    return serve("--models", MODELS / "values", MODELS / "kinds", pickling)


def ask(server, path, value):
    status, _, body = server.post(path, json.dumps(value).encode())
    return status, json.loads(body).get("prediction")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("dataclass", ["Crop", "Image", "tuple", "Colour"]),
        ("struct", ["Size"]),
        ("times", ["datetime", "date", "timedelta", "UUID", "Decimal"]),
        ("registered", ["Track"]),
        ("array", ["ndarray"]),
    ],
)
def test_objects_arrive_as_what_they_were(server, name, kinds):
    assert ask(server, "/values/predict", name) == (200, kinds)


def test_elements_of_a_list_and_members_of_a_mapping_arrive_too(server):
    assert ask(server, "/v1/each", "several") == (200, [["Size"], ["Track"]])
    assert ask(server, "/v1/both", "struct") == (200, {"make": ["Size"], "request": ["str"]})


def test_another_model_gets_mappings(server):
    assert ask(server, "/v1/other", "struct") == (200, {"parts": ["int", "int", "int"]})


def test_what_cannot_travel_is_a_500_that_the_log_explains(server):
    assert ask(server, "/values/predict", "unknown")[0] == 500
    said = server.wait_for("a Unknown cannot travel between processes")

    assert "servekit.types.register_value_type" in said
    assert "pickle in model.toml" in said


def test_with_pickle_it_travels_within_its_model_only(server):
    assert ask(server, "/pickling/predict", "unknown") == (200, ["Unknown"])
    assert ask(server, "/v2/other", "unknown")[0] == 500
