# SPDX-License-Identifier: Apache-2.0
"""What ``servekit vertex`` serves, and whether it starts."""

from types import SimpleNamespace

import pytest
from servekit_vertex import hooks
from servekit_vertex.command import models_of

from servekit.errors import PluginError, StartupError


@pytest.fixture
def storage(tmp_path):
    for name in ("a.mar", "b.mar"):
        (tmp_path / name).touch()
    return tmp_path


def test_everything_in_a_local_storage_is_served_if_one_is_named(storage):
    variables = {"AIP_STORAGE_URI": str(storage), "SERVEKIT_PLUGIN_VERTEX_MODEL": "a"}

    assert models_of([], variables) == [f"a={storage}/a.mar", f"{storage}/b.mar"]
    with pytest.raises(
        StartupError, match="found a, b; SERVEKIT_PLUGIN_VERTEX_MODEL names none of them"
    ):
        models_of([], variables | {"SERVEKIT_PLUGIN_VERTEX_MODEL": ""})
    with pytest.raises(StartupError, match="found a, b; SERVEKIT_PLUGIN_VERTEX_MODEL names c"):
        models_of([], variables | {"SERVEKIT_PLUGIN_VERTEX_MODEL": "c"})


@pytest.mark.parametrize(
    ("names", "uri", "models"),
    [
        (["a.mar"], "STORAGE", ["STORAGE/a.mar"]),
        (["STORAGE/b.mar"], "gs://bucket/x", ["STORAGE/b.mar"]),
        (["digits.mar"], "gs://bucket/x/", ["gs://bucket/x/digits.mar"]),
        (["s3://other/a.mar"], "gs://bucket/x/", ["s3://other/a.mar"]),
        ([], "gs://bucket/x/digits.mar", ["gs://bucket/x/digits.mar"]),
        (["d=a.mar"], "STORAGE", ["d=STORAGE/a.mar"]),
        (["d=STORAGE/b.mar"], "gs://bucket/x", ["d=STORAGE/b.mar"]),
        (["d=digits.mar"], "gs://bucket/x/", ["d=gs://bucket/x/digits.mar"]),
        (["d=s3://other/a.mar"], "gs://bucket/x/", ["d=s3://other/a.mar"]),
        (["d=gs://other/a.mar"], "STORAGE", ["d=gs://other/a.mar"]),
        (["d=a.mar"], "", ["d=a.mar"]),
        (["lr=1.mar"], "STORAGE", ["STORAGE/lr=1.mar"]),
        (["runs/lr=1.mar"], "gs://bucket/x", ["gs://bucket/x/runs/lr=1.mar"]),
        (["STORAGE/lr=1.mar"], "gs://bucket/x", ["STORAGE/lr=1.mar"]),
    ],
)
def test_models_are_paths_urls_or_below_the_storage(storage, names, uri, models):
    (storage / "lr=1.mar").touch()

    def placed(texts):
        return [text.replace("STORAGE", str(storage)) for text in texts]

    assert models_of(placed(names), {"AIP_STORAGE_URI": placed([uri])[0]}) == placed(models)


@pytest.mark.parametrize("name", ["=a.mar", "a="])
def test_a_model_without_a_name_or_a_path_ends_the_start(storage, name):
    with pytest.raises(StartupError, match="is empty"):
        models_of([name], {"AIP_STORAGE_URI": str(storage)})


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({}, "AIP_STORAGE_URI is not set"),
        ({"AIP_STORAGE_URI": "/nowhere"}, "/nowhere: no archive and no model directory"),
        ({"AIP_STORAGE_URI": "gs://bucket/x"}, "name the archive: servekit vertex NAME.mar"),
    ],
)
def test_without_a_model_the_server_does_not_start(variables, text):
    with pytest.raises(StartupError, match=text):
        models_of([], variables)


def test_models_of_the_settings_are_enough():
    assert models_of([], {"SERVEKIT_MODELS": "/srv/digits"}) == []


def test_several_models_end_the_start_unless_one_is_named(monkeypatch):
    own = hooks.register_settings()()
    server = SimpleNamespace(
        settings=SimpleNamespace(models=("/a", "/b")), plugin_settings=lambda plugin: own
    )
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    with pytest.raises(PluginError, match="2 models, and SERVEKIT_PLUGIN_VERTEX_MODEL does not"):
        hooks.register_protocols(server)
    own.model = "a"

    (protocol,) = hooks.register_protocols(server)
    assert protocol.paths == ("/health", "/predict")


def test_without_the_variables_of_vertex_there_is_no_protocol(monkeypatch):
    monkeypatch.delenv("AIP_PREDICT_ROUTE", raising=False)

    assert hooks.register_protocols(None) == []
