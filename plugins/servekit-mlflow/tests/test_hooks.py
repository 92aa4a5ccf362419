# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and what it reads of a directory."""

import json
import re
import subprocess
import sys

import pytest
from servekit_archiver import ArchiveError, load_directory
from servekit_mlflow import hooks
from servekit_mlflow.layout import layout_of
from servekit_mlflow.mlmodel import read_mlmodel

from servekit.errors import BootError

MLMODEL = """
flavors:
  python_function:
    loader_module: mlflow.sklearn
  sklearn:
    pickled_model: model.pkl
utc_time_created: '2026-11-22 20:41:14.123456'
signature:
  inputs: {inputs}
  outputs: '[{{"type": "tensor", "tensor-spec": {{"dtype": "int64", "shape": [-1]}}}}]'
  params: null
"""
COLUMN = {"type": "double", "name": "x", "required": True}
TENSOR = {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 3]}}


def write(directory, inputs=(COLUMN,), text=MLMODEL):
    quoted = json.dumps(json.dumps(list(inputs)))
    (directory / "MLmodel").write_text(text.format(inputs=quoted))


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_mlflow.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"mlflow", "numpy", "pandas", "yaml"} & set(loaded)


def test_an_mlflow_model_is_recognised_by_its_file(tmp_path):
    assert hooks.recognise_model(tmp_path) is None

    write(tmp_path)
    (tmp_path / "requirements.txt").write_text("scikit-learn\n")

    assert hooks.recognise_model(tmp_path) == {
        "service": "mlflow", "version": "20261122-204114", "requirements": "requirements.txt"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        pytest.param(MLMODEL.replace("mlflow.sklearn", "mlflow.pyfunc.model"), [COLUMN], id="code"),
        pytest.param(MLMODEL, [{"type": "datetime", "name": "x"}], id="dates"),
    ],
)
def test_requests_that_are_predicted_one_by_one_form_no_batches(tmp_path, text, inputs):
    write(tmp_path, inputs, text)

    assert hooks.recognise_model(tmp_path)["batching"] == {"max_batch_size": 1}


def test_an_mlmodel_wins_over_the_files_inside(tmp_path):
    directory = tmp_path / "iris"
    directory.mkdir()
    write(directory)
    (directory / "model.onnx").touch()
    (directory / "model.skops").touch()
    manifest = load_directory(directory)

    assert (manifest.name, manifest.service) == ("iris", "mlflow")


@pytest.mark.parametrize(
    ("row", "examples"),
    [
        pytest.param([1.5, "a"], [{"input": {"x": 1.5, "text": "a"}}], id="fits"),
        pytest.param([1, "a"], [{"input": {"x": 1, "text": "a"}}], id="a whole number"),
        pytest.param([None, "a"], None, id="a missing value"),
        pytest.param([1.5, 2], None, id="another type"),
        pytest.param([1.5], None, id="a missing column"),
    ],
)
def test_the_input_example_is_an_example_if_it_fits(tmp_path, row, examples):
    saved = {"artifact_path": "input_example.json", "type": "dataframe", "pandas_orient": "split"}
    text = f"{MLMODEL}saved_input_example_info: {json.dumps(saved).replace('{', '{{')}}}\n"
    write(tmp_path, [COLUMN, {"type": "string", "name": "text"}], text)
    split = {"columns": ["x", "text"], "data": [row]}
    (tmp_path / "input_example.json").write_text(json.dumps(split))

    assert hooks.recognise_model(tmp_path).get("examples") == examples


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"columns": ["x"], "data": [["café"]]}'.encode("latin-1"), id="not UTF-8"),
        pytest.param(b'{"columns": ["x"], "data": ' + b"[" * 100_000, id="deep"),
        pytest.param(b"{", id="cut short"),
    ],
)
def test_an_input_example_that_cannot_be_read_is_left_out(tmp_path, content):
    saved = {"artifact_path": "input_example.json", "pandas_orient": "split"}
    text = f"{MLMODEL}saved_input_example_info: {json.dumps(saved).replace('{', '{{')}}}\n"
    write(tmp_path, text=text)
    (tmp_path / "input_example.json").write_bytes(content)

    assert "examples" not in hooks.recognise_model(tmp_path)


@pytest.mark.parametrize(
    "path", ["{secret}", "../secret.json"], ids=["an absolute path", "a path that leads up"]
)
def test_the_input_example_is_read_from_the_model(tmp_path, path):
    secret, model = tmp_path / "secret.json", tmp_path / "model"
    secret.write_text(json.dumps({"columns": ["x"], "data": [[1.5]]}))
    saved = {"artifact_path": path.format(secret=secret), "pandas_orient": "split"}
    text = f"{MLMODEL}saved_input_example_info: {json.dumps(saved).replace('{', '{{')}}}\n"
    model.mkdir()
    write(model, [COLUMN], text)

    with pytest.raises(ArchiveError, match="artifact_path: "):
        load_directory(model)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("[", "MLmodel: ", id="not YAML"),
        pytest.param("a: 1", "flavors", id="no flavours"),
        pytest.param("flavors: {{spark: {{}}}}", "has spark, and python_function", id="no pyfunc"),
        pytest.param("[" * 1000, "MLmodel: ", id="deep"),
    ],
)
def test_an_mlmodel_that_cannot_be_served(tmp_path, text, reason):
    write(tmp_path, text=text)

    with pytest.raises(ArchiveError, match=re.escape(reason)):
        load_directory(tmp_path)


@pytest.mark.parametrize(
    ("specs", "inputs"),
    [
        pytest.param([COLUMN], [("x", "float64", [])], id="a column"),
        pytest.param(
            [COLUMN, {"type": "string", "name": "text"}],
            [("x", "float64", []), ("text", "str", [])],
            id="columns",
        ),
        pytest.param([TENSOR], [("input", "float32", [3])], id="a tensor without a name"),
        pytest.param([TENSOR | {"name": "a"}], [("a", "float32", [3])], id="a tensor"),
        pytest.param([COLUMN | {"required": False}], None, id="a column that may be missing"),
        pytest.param([{"type": "datetime", "name": "x"}], None, id="a date"),
        pytest.param([{"type": "array", "items": {}, "name": "x"}], None, id="lists in a column"),
        pytest.param([{"type": "double"}, {"type": "double"}], None, id="columns without names"),
        pytest.param([COLUMN, COLUMN], None, id="two of one name"),
        pytest.param(
            [{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [8, 3]}}],
            None,
            id="a batch of fixed size",
        ),
        pytest.param([], None, id="no signature"),
    ],
)
def test_the_signature_of_rows(tmp_path, specs, inputs):
    write(tmp_path, specs)
    layout = layout_of(read_mlmodel(tmp_path))

    found = layout and [(each["name"], each["dtype"], each["shape"]) for each in layout.inputs]
    assert found == inputs
    assert layout is None or layout.signature["outputs"] == [
        {"name": "prediction", "dtype": "int64", "shape": []}
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('["x"]', id="strings"),
        pytest.param('[{"type": "double", "name": "\ud800"}]', id="half of a character"),
        pytest.param('[{"type": "double", "more": ' + "[" * 100_000, id="deep"),
    ],
)
def test_a_signature_that_mlflow_did_not_write(tmp_path, text):
    (tmp_path / "MLmodel").write_text(MLMODEL.format(inputs=json.dumps(text)))

    with pytest.raises(BootError, match="signature: inputs"):
        layout_of(read_mlmodel(tmp_path))


def test_a_migration_names_every_setting(tmp_path):
    assert hooks.explain_migration(tmp_path) is None

    write(tmp_path)
    (tmp_path / "requirements.txt").write_text("scikit-learn\n")
    (tmp_path / "conda.yaml").touch()
    rows = [(row.before, row.now) for row in hooks.explain_migration(tmp_path)]

    assert rows == [
        ("flavour python_function", 'service = "mlflow"'),
        ("flavour sklearn", ""),
        ("utc_time_created", 'version = "20261122-204114"'),
        ("signature", "the inputs of /MODEL/predict"),
        ("requirements.txt", 'requirements = "requirements.txt"'),
        ("conda.yaml", ""),
    ]
