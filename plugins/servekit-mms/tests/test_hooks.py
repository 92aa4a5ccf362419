# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and what it reads of a directory."""

import json
import re
import subprocess
import sys

import pytest
from servekit_archiver import ArchiveError, load_directory
from servekit_mms import hooks
from servekit_mms.services import service_for

from servekit.errors import BootError

from .conftest import signature, write_handler, write_legacy


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_mms.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "PIL", "flask", "mms"} & set(loaded)


def test_the_package_of_mms_is_seen_by_workers_only():
    code = "import servekit_mms.hooks, importlib.util; print(importlib.util.find_spec('mms'))"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "None"


def test_an_archive_of_0x_is_recognised_by_its_manifest(tmp_path):
    assert hooks.recognise_model(tmp_path) is None

    write_legacy(tmp_path, name="resnet-18")

    assert hooks.recognise_model(tmp_path) == {
        "service": "mms",
        "name": "resnet-18",
        "description": "resnet-18",
        "batching": {"max_batch_size": 1},
    }


def test_an_archive_of_1x_is_recognised_by_its_manifest(tmp_path):
    write_handler(tmp_path / "a", "", modelVersion="1.2", description="does nothing")

    assert hooks.recognise_model(tmp_path / "a") == {
        "service": "mms",
        "name": "noop",
        "version": "1.2",
        "description": "does nothing",
        "batching": {"max_batch_size": 1},
        "envelope": False,
    }


def test_archives_of_others_are_left_to_others(tmp_path):
    (tmp_path / "MANIFEST.json").write_text('{"name": "something"}')
    assert hooks.recognise_model(tmp_path) is None

    write_handler(tmp_path / "torch", "")
    path = tmp_path / "torch" / "MAR-INF" / "MANIFEST.json"
    path.write_text('{"createdOn": "01/02/2024 03:04:05", "model": {"modelName": "a"}}')
    assert hooks.recognise_model(tmp_path / "torch") is None


UNREADABLE = {
    "not UTF-8": b'{"Model": 1, "Model-Archive-Version": 1, "specificationVersion": 1, "\xff": 1}',
    "deep": b'{"Model": 1, "Model-Archive-Version": 1, "specificationVersion": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("name", ["MANIFEST.json", "MAR-INF/MANIFEST.json"])
def test_a_manifest_that_cannot_be_read_is_left_to_others(tmp_path, name, content):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)

    assert hooks.recognise_model(tmp_path) is None


@pytest.mark.parametrize("extra", [b'"description": "\xff"', b'"x": "\xff"'])
def test_a_manifest_of_mms_that_is_not_utf_8_is_refused(tmp_path, extra):
    write_legacy(tmp_path / "old")
    write_handler(tmp_path / "new", "")
    for name in ("old/MANIFEST.json", "new/MAR-INF/MANIFEST.json"):
        text = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(text.rstrip()[:-1] + b", %b}" % extra)

        with pytest.raises(BootError, match=r"MANIFEST\.json: not UTF-8"):
            hooks.recognise_model(tmp_path / name.partition("/")[0])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"inputs": [{"data_name": "\xff", "data_shape": []}]}', id="not UTF-8"),
        pytest.param(b'{"inputs": ' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"more": ' + b"[" * 100_000, id="deep elsewhere"),
    ],
)
def test_a_signature_that_cannot_be_read_is_refused(tmp_path, content):
    write_legacy(tmp_path)
    (tmp_path / "signature.json").write_bytes(content)

    with pytest.raises(BootError, match=r"signature\.json: "):
        hooks.recognise_model(tmp_path)


def test_an_archive_wins_over_the_files_inside(tmp_path):
    write_legacy(tmp_path, name="digits")
    (tmp_path / "model.onnx").touch()
    manifest = load_directory(tmp_path)

    assert (manifest.name, manifest.service) == ("digits", "mms")


@pytest.mark.parametrize("name", ["a b", "-a", "a" * 65, "a..b"])
def test_a_name_that_no_path_can_have_is_left_out(tmp_path, name):
    write_legacy(tmp_path, name=name)

    assert "name" not in hooks.recognise_model(tmp_path)


def changed(**keys):
    """Return a signature with other values for some keys; ``None`` removes one."""
    found = signature() | keys
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        pytest.param(changed(inputs=None), "missing required field inputs", id="no inputs"),
        pytest.param(changed(input_type=None), "missing required field input_type", id="no type"),
        pytest.param(changed(input_type="image/png"), "image/png", id="another type"),
        pytest.param(changed(output_type=5), "Expected str", id="a type that is no string"),
        pytest.param(changed(inputs={}), "Expected array", id="inputs that are no list"),
        pytest.param(changed(inputs=[5]), "Expected object", id="an input that is no object"),
        pytest.param(changed(inputs=[]), "inputs must have names", id="an empty list"),
        pytest.param(changed(inputs=[{"data_shape": []}]), "data_name", id="no name"),
        pytest.param(changed(outputs=[{"data_name": "a"}]), "data_shape", id="no shape"),
        pytest.param(
            changed(inputs=[{"data_name": "a", "data_shape": ["x"]}]), "Expected int", id="shape"
        ),
        pytest.param(signature("a", "a"), "no two the same", id="two of one name"),
    ],
)
def test_a_signature_with_a_mistake_is_refused(tmp_path, signed, reason):
    write_legacy(tmp_path, signed=signed)

    with pytest.raises(ArchiveError, match=f"signature.json: .*{re.escape(reason)}"):
        load_directory(tmp_path)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"Signature": "other.json"}, "Model.Signature names 'other.json'"),
        ({"Service": "../service.py"}, "Model.Service names '../service.py'"),
        ({"Symbol": "a-symbol.json"}, "Model.Symbol names 'a-symbol.json'"),
        ({"Model-Name": None}, "Expected str, got null"),
    ],
)
def test_a_manifest_with_a_mistake_is_refused(tmp_path, model, reason):
    write_legacy(tmp_path, model=model)

    with pytest.raises(ArchiveError, match=re.escape(reason)):
        load_directory(tmp_path)


def test_other_runtimes_than_python_are_refused(tmp_path):
    write_handler(tmp_path / "a", "")
    path = tmp_path / "a" / "MAR-INF" / "MANIFEST.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"runtime": "java"}))

    with pytest.raises(BootError, match="runtime java"):
        hooks.recognise_model(tmp_path / "a")


def test_the_service_needs_an_archive(tmp_path):
    with pytest.raises(BootError, match=r"no MANIFEST\.json of MMS"):
        service_for(tmp_path)


def test_the_report_of_a_migration_names_what_the_archive_says(tmp_path):
    files = {"Symbol": "a-symbol.json", "Parameters": "a-0000.params"}
    write_legacy(tmp_path / "old", model=files, synset__txt="a")
    (tmp_path / "old" / "a-symbol.json").touch()
    write_handler(tmp_path / "new", "", modelVersion="2.0")
    old = {row.before: row for row in hooks.explain_migration(tmp_path / "old")}
    new = {row.before: row.now for row in hooks.explain_migration(tmp_path / "new")}

    assert hooks.explain_migration(tmp_path) is None
    assert old["Model-Name lstm_ptb"].now == 'name = "lstm_ptb"'
    assert old["inputs data (application/json)"].now == "parts of /MODEL/predict"
    assert "ONNX" in old["a-symbol.json, a-0000.params"].note
    assert new["modelVersion 2.0"] == 'version = "2.0"'
