# SPDX-License-Identifier: Apache-2.0
"""``servekit migrate`` of archives of TorchServe."""

import json

import pytest
from torch_archives import write_directory, write_mar, write_tgz

from servekit.cli import main
from servekit.testing import ServedModel

CODE = """
    def handle(data, context):
        if data is None:
            return None
        model = context.manifest["model"]
        return [[model["modelName"], row["body"], context.model_yaml_config["top"]] for row in data]
"""
CONFIG = """
    minWorkers: 2
    maxWorkers: 4
    batchSize: 8
    responseTimeout: 60
    deviceType: cpu
    top: 5
"""


def migrate(capsys, source, output, *more):
    status = main(["migrate", str(source), "-o", str(output), "--json", *more])
    return status, json.loads(capsys.readouterr().out)


def test_the_report_names_everything_that_the_archive_says(tmp_path, capsys):
    options = {
        "name": "mnist",
        "config": CONFIG,
        "serializedFile": "mnist.pt",
        "requirementsFile": "requirements.txt",
        "files": {"mnist.pt": b"weights", "requirements.txt": b"numpy"},
    }
    old = write_mar(tmp_path / "old.mar", CODE, **options)
    status, report = migrate(capsys, old, tmp_path / "new.mar")

    assert (status, report["name"], report["version"]) == (0, "mnist", "1.0")
    assert {row["before"]: row["now"] for row in report["settings"]} == {
        "modelName: mnist": 'name = "mnist"',
        "modelVersion: 1.0": 'version = "1.0"',
        "handler: handler.py": 'service = "torchserve"',
        "serializedFile: mnist.pt": "mnist.pt",
        "requirementsFile: requirements.txt": 'requirements = "requirements.txt"',
        "minWorkers: 2": "[worker] replicas = 2",
        "maxWorkers: 4": "",
        "batchSize: 8": "[batching] max_batch_size = 8",
        "responseTimeout: 60": "[worker] predict_timeout_s = 60.0",
        'deviceType: "cpu"': '[worker] env = {"CUDA_VISIBLE_DEVICES": ""}',
        "top: 5": "model-config.yaml",
    }
    notes = {row["before"]: row["note"] for row in report["settings"]}
    assert notes["maxWorkers: 4"].startswith("replicas = { min = 1, max = 4 }")


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "file"),
    [(write_mar, "old.mar"), (write_tgz, "old.tar.gz"), (write_directory, "old")],
)
def test_what_was_migrated_answers_as_before(tmp_path, capsys, write, file):
    old = write(tmp_path / file, CODE, name="echo", config="top: 5")
    migrate(capsys, old, tmp_path / "new.mar", "--name", "renamed")

    with ServedModel(tmp_path / "new.mar") as served:
        answer = served.wait_ready().post("/predictions/renamed", b"[1]")

    assert answer.status == 200
    assert json.loads(answer.body) == ["echo", [1], 5]
