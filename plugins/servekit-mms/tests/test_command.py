# SPDX-License-Identifier: Apache-2.0
"""``servekit mms``: the arguments of ``mxnet-model-server``, and the server that they start."""

import argparse
import json
import os
import signal
import stat
import subprocess
import urllib.request
from contextlib import suppress

import pytest
from servekit_mms.client_code import generator_command
from servekit_mms.command import NamedArchive, configure, model_of, start_arguments, variables

from servekit.errors import StartupError
from tests.processes import free_port
from tests.waiting import wait_until

from .conftest import BIN, ECHO, get, write_legacy

WAIT_S = 240.0


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(["--models", "a=a.model", *arguments])


def test_the_defaults_are_those_of_mms(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = parsed()

    assert start_arguments(found) == [
        "--host=127.0.0.1", "--port=8080", "--log-level=info", "--plugin", "mms.root=true",
    ]  # fmt: skip
    assert variables(found) == {
        "MMS_LOG_FILE": str(tmp_path / "mms_app.log"),
        "MMS_LOG_LEVEL": "info",
        "MMS_LOG_ROTATION_TIME": "1 H",
        "MMS_METRICS_DIRECTORY": str(tmp_path / "metrics"),
        "MMS_METRICS_WRITE_TO": "log",
    }


def test_every_model_gets_the_service_and_the_gpu(tmp_path):
    service = tmp_path / "my service.py"
    service.touch()
    found = parsed("--service", str(service), "--gpu", "1")
    found.models.append(NamedArchive("resnet-1.5", "b"))

    assert start_arguments(found)[-5:] == [
        "--set",
        f'"a".options.service="{service}"',
        '"a".options.gpu=1',
        f'"resnet-1.5".options.service="{service}"',
        '"resnet-1.5".options.gpu=1',
    ]


def test_a_service_that_is_missing_is_refused():
    with pytest.raises(StartupError, match=r"missing\.py is not a file"):
        start_arguments(parsed("--service", "missing.py"))


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("a=b.model", "b.model"),
        ("a=file:///srv/b.model", "/srv/b.model"),
        ("a=s3://bucket/b.model?versionId=1", "s3://bucket/b.model?versionId=1"),
    ],
)
def test_models_are_named(text, location):
    assert model_of(text) == NamedArchive("a", location)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--models", "b.model"], "is not NAME=LOCATION"),
        (["--models", "b=b.onnx"], "servekit-onnx serves"),
        (["--log-rotation-time", "1 Y"], "is not an interval"),
        (["--log-level", "LOUD"], "invalid choice"),
        (["--metrics-write-to", "graphite"], "invalid choice"),
    ],
)
def test_mistakes_are_named(arguments, reason, capsys):
    with pytest.raises(SystemExit):
        parsed(*arguments)

    assert reason in capsys.readouterr().err


def test_generators_are_called_without_a_shell(tmp_path):
    path = tmp_path / "openapi.json"

    assert generator_command("swagger-codegen", path, "python; rm")[-4:] == [
        "-l", "python; rm", "-o", "build"
    ]  # fmt: skip


# ------------------------------------------------------------ real processes


def run(directory, *arguments, **environment):
    return subprocess.run(
        [BIN / "servekit", "mms", *arguments], cwd=directory, env=os.environ | environment,
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


def health(process, port):
    """Return what the server says, if it runs."""
    assert process.poll() is None, process.stdout.read()
    with suppress(OSError):
        return get(f"http://127.0.0.1:{port}/")


def descriptions(journal):
    """Return how many descriptions have been asked for, by the metrics exported last."""
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    exported = [each["samples"] for each in events if each["event"] == "metrics"]
    return sum(
        sample["value"]
        for sample in (exported[-1] if exported else ())
        if sample["name"] == "servekit_mms_descriptions_total"
    )


@pytest.mark.slow
def test_the_server_writes_a_log_and_metrics_until_sigterm(tmp_path):
    write_legacy(tmp_path / "lstm_ptb")
    (tmp_path / "other.py").write_text(ECHO.replace('self.greeting + " "', '"other "'))
    port, journal = free_port(), tmp_path / "journal"
    process = subprocess.Popen(
        [BIN / "servekit", "mms", "--models", "lstm=lstm_ptb", "--port", str(port),
         "--service", "other.py", "--metrics-write-to", "csv"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "JOURNAL_FILE": str(journal), "JOURNAL_ALSO": "metrics"},
    )  # fmt: skip
    try:
        found = wait_until(lambda: health(process, port), "the server does not answer")
        body = json.dumps({"data": [{"input_sentence": "a"}]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/lstm/predict", body, {"Content-Type": "application/json"}
        )
        said = get(request)
        described = get(f"http://127.0.0.1:{port}/api-description")
        # metrics are exported every ten seconds, to the journal first
        wait_until(lambda: descriptions(journal) == 1, "the metrics are not exported")
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()

    assert found == {"health": "healthy!"}
    assert said == {"prediction": "other a"}
    assert "/lstm/predict" in described["description"]["paths"]
    log = (tmp_path / "mms_app.log").read_text()
    assert "serving lstm/1.0" in log, printed
    total = (tmp_path / "metrics" / "mms_PredictionTotal.csv").read_text()
    assert ",lstm,1,count" in total
    assert ",1,count" in (tmp_path / "metrics" / "mms_APIDescriptionTotal.csv").read_text()
    assert "%" not in (tmp_path / "metrics" / "mms_CPUUtilization.csv").read_text()


@pytest.mark.slow
def test_a_client_is_generated_by_what_is_installed(tmp_path):
    write_legacy(tmp_path / "lstm_ptb")
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "swagger-codegen"
    tool.write_text('#!/bin/sh\nmkdir -p build/client && echo "$@" > build/client/arguments\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    line = ["--models", "lstm=lstm_ptb", "--gen-api", "python"]
    without = run(tmp_path, *line, PATH="/nowhere")
    done = run(tmp_path, *line, PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")

    assert without.returncode == 3
    assert "swagger-codegen generate -i build/openapi.json -l python -o build" in without.stderr
    assert done.returncode == 0, done.stderr
    described = json.loads((tmp_path / "build" / "openapi.json").read_text())
    assert "/lstm/predict" in described["paths"]
    arguments = (tmp_path / "build" / "client" / "arguments").read_text()
    assert arguments.strip() == "generate -i build/openapi.json -l python -o build"


@pytest.mark.slow
def test_help_names_the_flags_of_mms(tmp_path):
    shown = run(tmp_path, "--help").stdout

    for flag in ("--models", "--service", "--gen-api", "--log-rotation-time", "--metrics-write-to"):
        assert flag in shown
