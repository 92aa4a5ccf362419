# SPDX-License-Identifier: Apache-2.0
"""Archives of torch-model-archiver are recognised, unpacked, and offered as ``model.toml`` keys."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servekit_archiver import ArchiveError, load_directory, open_foreign_archive, unpack
from servekit_torchserve import hooks
from servekit_torchserve.archive import parse_manifest
from torch_archives import MANIFEST, manifest, write_directory, write_mar, write_tgz

from servekit.errors import BootError

HANDLER = "def handle(data, context):\n    return data\n"
CONFIG = """
    minWorkers: 2
    maxWorkers: 4
    batchSize: 8
    maxBatchDelay: 50
    responseTimeout: 10
    startupTimeout: 300
    handler: {threshold: 0.5}
"""


def ignore(done, total):
    """Stand for what shows progress."""


@pytest.mark.parametrize("write", [write_mar, write_tgz])
def test_an_archive_is_unpacked(tmp_path, write):
    path = write(tmp_path / "a", HANDLER)
    (tmp_path / "out").mkdir()

    assert hooks.unpack_archive(path, tmp_path / "out", ignore) is True
    assert (tmp_path / "out/handler.py").read_text() == HANDLER
    assert (tmp_path / "out" / MANIFEST).is_file()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({"format": 1, "model": {}}, id="servekit"),
        pytest.param({"specificationVersion": "1.0", "model": {"handler": "a:b"}}, id="MMS"),
        pytest.param({"engine": {"engineName": "MXNet"}, "model": {}}, id="MMS with its engine"),
        pytest.param({"runtime": "python"}, id="no model"),
        pytest.param([], id="not a table"),
    ],
)
def test_archives_of_others_are_left_to_them(content):
    assert parse_manifest(json.dumps(content).encode()) is None


def test_a_zip_file_without_a_manifest_is_left_to_others(tmp_path):
    path = write_mar(tmp_path / "a.mar", HANDLER)
    with open_foreign_archive(path) as archive:
        assert MANIFEST in archive.names
    path.write_bytes(b"PK\x05\x06" + bytes(18))

    assert hooks.unpack_archive(path, tmp_path, ignore) is None


def test_the_archive_becomes_a_manifest(tmp_path):
    path = write_mar(
        tmp_path / "iris.mar",
        HANDLER,
        name="iris",
        config=CONFIG,
        files={"requirements.txt": "numpy"},
        modelVersion="2.1",
        requirementsFile="requirements.txt",
    )
    found = unpack(path, tmp_path / "cache").manifest

    assert (found.name, found.version, found.service) == ("iris", "2.1", "torchserve")
    assert (found.batching.max_batch_size, found.batching.max_delay_ms) == (8, 50)
    worker = found.worker
    assert (worker.replicas, worker.predict_timeout_s, worker.load_timeout_s) == (2, 10, 300)
    assert found.requirements == "requirements.txt"


def test_an_archive_that_says_nothing_has_the_defaults_of_torchserve(tmp_path):
    found = load_directory(write_directory(tmp_path / "echo", HANDLER))

    assert found.batching.max_batch_size == 1
    assert found.worker.predict_timeout_s == 120


@pytest.mark.parametrize(
    ("config", "env"),
    [
        pytest.param("deviceType: cpu", {"CUDA_VISIBLE_DEVICES": ""}, id="cpu"),
        pytest.param(
            "minWorkers: 3\ndeviceType: gpu\ndeviceIds: [2, 5]",
            tuple({"CUDA_VISIBLE_DEVICES": each} for each in "252"),
            id="ids in turn",
        ),
    ],
)
def test_devices_become_variables(tmp_path, config, env):
    found = load_directory(write_directory(tmp_path / "echo", HANDLER, config=config))

    assert found.worker.env == env


def test_a_handler_that_sends_parts_is_served_as_a_stream(tmp_path):
    code = "from ts.handler_utils.utils import send_intermediate_predict_response\n" + HANDLER
    found = load_directory(write_directory(tmp_path / "echo", code, config="batchSize: 8"))

    assert (found.service, found.batching.max_batch_size) == ("torchserve-stream", 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"runtime": "LSP"}, "runtime: LSP is not served", id="C++"),
        pytest.param({"config": "- a"}, "is a list, not a mapping", id="config"),
        pytest.param({"config": "batchSize: many"}, "Expected `int", id="type of a key"),
        pytest.param({"config": "a: ["}, "model-config.yaml: ", id="not YAML"),
    ],
)
def test_what_cannot_be_served_is_refused(tmp_path, options, reason):
    directory = write_directory(tmp_path / "echo", HANDLER, **options)

    with pytest.raises(BootError, match=reason):
        hooks.recognise_model(directory)


def test_the_archiver_itself_writes_what_is_read(tmp_path):
    pytest.importorskip("model_archiver")
    (tmp_path / "handler.py").write_text(HANDLER)
    program = Path(sys.executable).with_name("torch-model-archiver")
    for kind, suffix in ("default", ".mar"), ("tgz", ".tar.gz"), ("zip-store", ".mar"):
        command = [program, "--model-name=real", "--version=1.0", "--force"]
        command += [f"--handler={tmp_path / 'handler.py'}", f"--archive-format={kind}"]
        subprocess.run([*command, f"--export-path={tmp_path}"], check=True, capture_output=True)
        found = unpack(tmp_path / f"real{suffix}", tmp_path / "cache").manifest
        assert (found.name, found.service) == ("real", "torchserve")


def test_the_hooks_are_light():
    code = "import servekit_torchserve.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"yaml", "torch", "multipart", "servekit_torchserve.archive"} & {*loaded}


def test_the_manifest_of_the_tests_is_read():
    assert parse_manifest(json.dumps(manifest("iris")).encode()).model.model_name == "iris"


@pytest.mark.parametrize("key", ["configFile", "requirementsFile"])
@pytest.mark.parametrize(
    "path", ["{secret}", "../secret.yaml"], ids=["an absolute path", "a path that leads up"]
)
def test_no_file_outside_the_archive_is_read(tmp_path, key, path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: [hunter2")
    model = write_directory(tmp_path / "model", HANDLER, **{key: path.format(secret=secret)})

    with pytest.raises(ArchiveError, match=f"{key}: ") as refusal:
        load_directory(model)
    assert "hunter2" not in str(refusal.value)
