# SPDX-License-Identifier: Apache-2.0
"""What pages are told about a model: plain values, whatever the model is."""

import json

import pytest

from servekit.description.facts import model_facts
from servekit.ipc.table import Interface, ModelRow, StepRow, TrafficRow
from servekit.ipc.table import RouteRow as Route

SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}


def row(name="m", **manifest):
    interface = Interface(input_schema={"type": "integer", "minimum": 3}, consumes=["image/*"])
    manifest = {"name": name, **manifest}
    return ModelRow(
        name, "1", "Counts.", [], 1, 0.0, 0.0, 1, manifest=manifest, interface=interface
    )


def test_the_facts_are_values_of_json():
    said = {"title": "Try me", "inputs": {"x": {"widget": "grid"}}}
    facts = model_facts(row(playground=said), [row()])

    assert json.loads(json.dumps(facts)) == facts
    assert (facts["name"], facts["description"], facts["playground"]) == ("m", "Counts.", said)
    assert [path["path"] for path in facts["paths"]] == ["/m/predict"]


def test_an_input_is_suggested_even_if_there_are_examples():
    path = model_facts(row(examples=[{"input": 7}]), [row()])["paths"][0]

    assert (path["sample"], path["examples"][0]["input"]) == (3, 7)


def test_arrays_are_suggested_as_lists():
    model = ModelRow(
        "m", "1", "", [], 1, 0.0, 0.0, 1, manifest={"name": "m", "signature": SIGNATURE}
    )

    assert model_facts(model, [model])["paths"][0]["sample"] == {"x": [0.5, 0.5]}


@pytest.mark.parametrize(
    ("named", "media_type"), [({}, "image/png"), ({"content_type": "image/x-own"}, "image/x-own")]
)
def test_the_file_of_an_example_has_its_media_type(named, media_type):
    examples = [{"input_file": "a/three.png", **named}]
    path = model_facts(row(examples=examples), [row()])["paths"][0]

    assert path["examples"][0]["content_type"] == media_type


def test_versions_are_named_once_and_add_no_paths():
    model = row()
    model.versions, model.traffic = [row()], TrafficRow(aliases={"canary": "1"})
    model.routes = [Route("/v1/more", [StepRow(stage="predict")])]
    facts = model_facts(model, [model])

    assert facts["versions"] == ["1", "1"]
    assert [path["path"] for path in facts["paths"]] == ["/m/predict", "/v1/more"]


def test_a_pipeline_is_described_by_the_models_it_calls():
    model, other = row(), row("other")
    model.routes = [Route("/m/predict", [StepRow(model="other")])]

    assert model_facts(model, [model, other])["paths"][0]["input_schema"]["minimum"] == 3
