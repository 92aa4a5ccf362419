# SPDX-License-Identifier: Apache-2.0
"""What ``serve`` finds, and what becomes of SageMaker's variables."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from servekit_sagemaker import hooks
from servekit_sagemaker.command import models_of
from servekit_sagemaker.command import start as start_server
from servekit_sagemaker.environment import SageMakerEnvironment, settings_of

from servekit.errors import PluginError, StartupError
from servekit.testing import ServedModel

from .conftest import BIN, write_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("given", "setting", "value"),
    [
        ({}, "SERVEKIT_HOST", "0.0.0.0"),
        ({}, "SERVEKIT_PORT", "8080"),
        ({}, "SERVEKIT_GRACE", "20"),
        ({}, "SERVEKIT_MAX_BODY", "100MiB"),
        ({"SAGEMAKER_BIND_TO_PORT": "9000"}, "SERVEKIT_PORT", "9000"),
        ({"SAGEMAKER_MODEL_SERVER_WORKERS": "4"}, "SERVEKIT_REPLICAS", "4"),
        ({"SAGEMAKER_MODEL_SERVER_TIMEOUT": "60"}, "SERVEKIT_PREDICT_TIMEOUT", "60"),
        ({"SAGEMAKER_STARTUP_TIMEOUT": "600"}, "SERVEKIT_LOAD_TIMEOUT", "600"),
        ({"SAGEMAKER_MAX_REQUEST_SIZE": "1000"}, "SERVEKIT_MAX_BODY", "1000"),
        ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "6"}, "SERVEKIT_MAX_BODY", "6MiB"),
        ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": "0"}, "SERVEKIT_MAX_BODY", "100MiB"),
        ({"SAGEMAKER_MAX_PAYLOAD_IN_MB": ""}, "SERVEKIT_MAX_BODY", "100MiB"),
        (
            {"SAGEMAKER_MAX_PAYLOAD_IN_MB": "", "SAGEMAKER_MAX_REQUEST_SIZE": "1000"},
            "SERVEKIT_MAX_BODY",
            "1000",
        ),
        ({"SAGEMAKER_MAX_REQUEST_SIZE": ""}, "SERVEKIT_MAX_BODY", "100MiB"),
        ({"SERVEKIT_MAX_BODY": ""}, "SERVEKIT_MAX_BODY", "100MiB"),
        ({"SAGEMAKER_CONTAINER_LOG_LEVEL": ""}, "SERVEKIT_LOG_LEVEL", None),
        ({"SAGEMAKER_CONTAINER_LOG_LEVEL": "30"}, "SERVEKIT_LOG_LEVEL", "warning"),
        ({"SAGEMAKER_BIND_TO_PORT": "9000", "SERVEKIT_PORT": "1"}, "SERVEKIT_PORT", None),
        ({"SERVEKIT_BIND": "unix:/a"}, "SERVEKIT_PORT", None),
        ({"SERVEKIT_BIND": "unix:/a"}, "SERVEKIT_HOST", None),
    ],
)  # fmt: skip
def test_variables_become_settings_unless_those_are_given(given, setting, value):
    assert settings_of(given).get(setting) == value


@pytest.fixture
def base(tmp_path):
    (tmp_path / "model").mkdir()
    return tmp_path


def found(base, model="", **environment):
    variables = environment | {"SERVEKIT_PLUGIN_SAGEMAKER_MODEL": model}
    return models_of(SageMakerEnvironment(base, is_multi_model=False), variables)


def test_a_model_directory_that_was_packed_is_served(base):
    write_model(base / "model")

    assert found(base) == [str(base / "model")]


def test_an_archive_or_a_model_directory_in_it_is_served(base):
    (base / "model/digits.mar").touch()
    (base / "model/readme.txt").touch()

    assert found(base) == [str(base / "model/digits.mar")]


def test_files_that_a_plugin_may_recognise_are_served(base):
    (base / "model/model.joblib").touch()

    assert found(base) == [str(base / "model")]


def test_of_several_the_one_that_is_named_answers(base):
    (base / "model/digits.mar").touch()
    write_model(base / "model/echo")

    assert found(base, "echo") == [str(base / "model/digits.mar"), f"echo={base}/model/echo"]
    with pytest.raises(
        StartupError, match="digits, echo; SERVEKIT_PLUGIN_SAGEMAKER_MODEL names none"
    ):
        found(base)
    with pytest.raises(StartupError, match="SERVEKIT_PLUGIN_SAGEMAKER_MODEL names other"):
        found(base, "other")


def test_without_a_model_the_settings_must_name_one(base):
    assert found(base, SERVEKIT_MODELS="/srv/digits") == []
    with pytest.raises(StartupError, match="no archive and no model directory; model"):
        found(base)


@pytest.mark.parametrize(
    ("given", "used"), [("", r".+/servekit-sagemaker-8080\.json"), ("/s", "/s")]
)
def test_a_state_file_is_chosen_unless_the_variable_has_one(monkeypatch, given, used):
    started = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments[-1]))
    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    monkeypatch.setenv("SERVEKIT_STATE", given)
    start_server()

    assert re.fullmatch(used, started[0]["SERVEKIT_STATE"])


def server_of(**own):
    settings = hooks.register_settings()(**own)
    return SimpleNamespace(
        settings=SimpleNamespace(models=("/a", "/b")), plugin_settings=lambda plugin: settings
    )


def test_several_models_in_the_settings_end_the_start_unless_one_is_named():
    with pytest.raises(PluginError, match="2 models, and SERVEKIT_PLUGIN_SAGEMAKER_MODEL does not"):
        hooks.register_protocols(server_of(enabled=True))

    (protocol,) = hooks.register_protocols(server_of(enabled=True, model="a"))
    assert protocol.paths == ("/ping", "/invocations")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("entry_point", "program"), [([], "serve"), ([BIN / "servekit"], "servekit")]
)
def test_a_container_without_a_model_says_why_it_ends(start, tmp_path, entry_point, program):
    container = start(tmp_path, *entry_point)

    assert container.wait() == 3
    assert container.output.startswith(f"{program}: {tmp_path}/model: no archive")


@pytest.mark.e2e
def test_an_image_whose_entry_point_is_servekit_serves(start, tmp_path):
    write_model(tmp_path / "model")

    assert start(tmp_path, BIN / "servekit").wait_ready().invoke([1]) == (200, [1])


@pytest.mark.e2e
def test_a_server_that_serve_has_not_started_is_unchanged(tmp_path):
    with ServedModel(write_model(tmp_path / "echo")) as served:
        served.wait_ready()
        ping, invoked = served.get("/ping"), served.post("/invocations", b"1")

    assert ping.json() == {"health": "healthy!"}
    assert invoked.status == 404


@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0 or Path("/opt/ml").exists(), reason="needs /opt/ml")
def test_the_directories_and_the_port_of_the_platform(start, tmp_path):
    write_model(Path("/opt/ml/model"))
    try:
        container = start(tmp_path, SAGEMAKER_BASE_DIR="")
        assert container.wait_ready().invoke(1) == (200, 1)
    finally:
        for path in ("/opt/ml/model/service.py", "/opt/ml/model/model.toml"):
            Path(path).unlink()
        Path("/opt/ml/model").rmdir()
        Path("/opt/ml").rmdir()


def test_the_hook_module_is_light():
    import subprocess
    import sys

    code = "import servekit_sagemaker.hooks, json, sys; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))

    assert not {"flask", "servekit_sagemaker.protocol"} & {*loaded}
