# SPDX-License-Identifier: Apache-2.0
"""A directory as KServe has it for TorchServe is one model: the archive in its model store."""

import json

import pytest
from servekit_archiver import ArchiveError, load_directory, open_directory
from torch_archives import write_mar

CODE = "def handle(data, context):\n    return data\n"


@pytest.fixture
def mounted(tmp_path):
    """Return what writes ``/mnt/models``."""

    def write(*names, snapshot=None, properties=""):
        (tmp_path / "config").mkdir()
        (tmp_path / "model-store").mkdir()
        text = f"inference_address=http://0.0.0.0:8085\n{properties}"
        if snapshot is not None:
            text += f"model_snapshot={json.dumps(snapshot)}\n"
        (tmp_path / "config/config.properties").write_text(text)
        for name in names:
            write_mar(tmp_path / "model-store" / name, CODE)
        return tmp_path

    return write


def entry(name, **values):
    return {"defaultVersion": True, "marName": name, **values}


def test_the_only_archive_of_the_store_is_the_model(mounted):
    directory = mounted("echo.mar")

    assert open_directory(directory).path == directory / "model-store/echo.mar"


def test_the_snapshot_says_which_archive_and_how_it_is_served(mounted):
    version = entry(
        "echo.mar", minWorkers=2, maxWorkers=5, batchSize=4, maxBatchDelay=10, responseTimeout=60
    )
    older = {"marName": "old.mar", "defaultVersion": False}
    snapshot = {"name": "startup.cfg", "models": {"echo": {"1.0": version, "0.9": older}}}
    found = open_directory(mounted("echo.mar", "old.mar", snapshot=snapshot))

    assert found.path.name == "echo.mar"
    assert found.keys == {
        "batching": {"max_batch_size": 4, "max_delay_ms": 10},
        "worker": {"replicas": 2, "predict_timeout_s": 60},
    }


def test_properties_for_all_models_become_options(mounted):
    text = "service_envelope=kservev2\ndecode_input_request=false\n"
    found = open_directory(mounted("echo.mar", properties=text))

    assert found.keys == {"options": {"envelope": "kservev2", "decode_input": False}}


@pytest.mark.parametrize(
    ("names", "snapshot", "reason"),
    [
        pytest.param(
            ["a.mar", "b.mar"], None, r"several models \(a.mar, b.mar\)", id="no snapshot"
        ),
        pytest.param(
            ["a.mar", "b.mar"],
            {"models": {"a": {"1": entry("a.mar")}, "b": {"1": entry("b.mar")}}},
            r"several models \(a, b\)",
            id="two models",
        ),
        pytest.param(
            ["a.mar"], {"models": {"a": {"1": entry("b.mar")}}}, "'b.mar' is not in", id="absent"
        ),
        pytest.param(["a.mar"], {"models": []}, "model_snapshot: Expected", id="no table"),
    ],
)
def test_a_store_that_is_not_one_model_is_refused(mounted, names, snapshot, reason):
    with pytest.raises(ArchiveError, match=reason):
        open_directory(mounted(*names, snapshot=snapshot))


def test_a_configuration_without_archives_is_left_to_others(mounted):
    with pytest.raises(ArchiveError, match="no installed plugin recognises it"):
        load_directory(mounted())
