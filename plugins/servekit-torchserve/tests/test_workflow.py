# SPDX-License-Identifier: Apache-2.0
"""Workflows of TorchServe as pipelines."""

import json
import zipfile
from http.client import HTTPConnection

import pytest
from servekit_archiver import ArchiveError, unpack
from torch_archives import write_mar

from servekit import serve
from servekit.cli import main
from servekit.testing import ServedModel

SPEC = """
models:
  min-workers: 1
  batch-size: 4
  max-batch-delay: 1
  double: {url: double.mar}
  negate: {url: "https://example.test/negate.mar", batch-size: 2, timeout-ms: 5000}
dag:
  before: [double]
  double: [negate, both]
  negate: [both]
"""
TWO_LEAVES = f"{SPEC[: SPEC.index('dag')]}dag:\n  before: [double, negate]\n"
FUNCTIONS = """
import json

def before(data, context):
    rows = [row["body"] for row in data]
    if any(row == "refuse" for row in rows):
        raise ValueError("as asked")
    return rows

def both(data, context):
    return [{name: json.loads(value) for name, value in row.items()} for row in data]
"""
MODEL = """
    import json
    from factor import FACTOR

    def handle(data, context):
        if data is None:
            return None
        return [FACTOR * json.loads(bytes(row["body"])) for row in data]
"""


def write_war(path, spec=SPEC, name="flow", spec_file="spec.yaml"):
    """Write a workflow, and beside it the archives of its models."""
    for model, factor in (("double", 2), ("negate", -1)):
        files = {"factor.py": f"FACTOR = {factor}\n"}
        write_mar(path.parent / f"{model}.mar", MODEL, name=model, files=files)
    workflow = {"workflowName": name, "specFile": spec_file, "handler": "functions.py"}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("WAR-INF/MANIFEST.json", json.dumps({"workflow": workflow}))
        file.writestr("spec.yaml", spec)
        file.writestr("functions.py", FUNCTIONS)
    return path


def test_nodes_are_stages_and_edges_are_inputs(tmp_path):
    manifest = unpack(write_war(tmp_path / "flow.war"), tmp_path / "cache").manifest

    assert manifest.name == "flow"
    assert list(manifest.stages) == ["before", "double", "negate", "both"]
    assert [(step.stage, list(step.inputs)) for step in manifest.pipeline] == [
        ("before", ["request"]),
        ("double", ["before"]),
        ("negate", ["double"]),
        ("both", ["double", "negate"]),
    ]
    assert manifest.stages["double"].batching.max_batch_size == 4
    assert manifest.stages["negate"].batching.max_batch_size == 2
    assert manifest.stages["negate"].worker.predict_timeout_s == 5


def test_the_report_names_nodes_and_edges(tmp_path, capsys):
    war = write_war(tmp_path / "flow.war")
    assert main(["migrate", str(war), "-o", str(tmp_path / "new.mar"), "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]

    rows = {row["before"]: row["now"] for row in settings}
    assert rows["workflowName: flow"] == 'name = "flow"'
    assert rows["models: double: double.mar"] == "[stages.double] in nodes/double"
    assert rows["function both"] == "[stages.both]"
    assert rows["dag: negate: both"] == "a step of pipeline"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param("dag: {a: [b], b: [a]}", "a, b form a cycle", id="a cycle"),
        pytest.param("dag: [a]", "Expected `object`", id="not a graph"),
        pytest.param(
            "models: {a: {url: none.mar}}", "there is no none.mar beside it", id="missing"
        ),
    ],
)
def test_a_workflow_that_cannot_be_served_says_why(tmp_path, spec, reason):
    with pytest.raises(ArchiveError, match=reason):
        unpack(write_war(tmp_path / "flow.war", spec), tmp_path / "cache")


OUTSIDE = {
    "absolute": "{outside}/new",
    "above": "../../../../{outside}/new",
    "a folder in a folder": "double/inner",
    "empty": "",
    "the folder itself": ".",
}


@pytest.mark.parametrize("node", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_no_node_is_unpacked_outside_the_cache(tmp_path, node):
    outside = tmp_path / "outside"
    name = json.dumps(node.format(outside=outside))
    war = write_war(tmp_path / "flow.war", f"models: {{{name}: {{url: double.mar}}}}")

    with pytest.raises(ArchiveError, match="workflow: models: "):
        unpack(war, tmp_path / "cache")

    assert not outside.exists()
    assert not list((tmp_path / "cache").rglob("handler.py"))


def test_the_specification_is_read_from_the_archive(tmp_path):
    (tmp_path / "secret.yaml").write_text("{a: {b")
    war = write_war(tmp_path / "flow.war", spec_file=str(tmp_path / "secret.yaml"))

    with pytest.raises(ArchiveError, match="No such file"):
        unpack(war, tmp_path / "cache")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_workflow_answers_at_its_path(tmp_path):
    write_war(tmp_path / "flow.war")
    write_war(tmp_path / "leaves.war", TWO_LEAVES, "leaves")
    models = {name: str(tmp_path / f"{name}.war") for name in ("flow", "leaves")}
    with serve(models, block=False, port=0) as server:
        one = ask(server.url, "/wfpredict/flow", b"3")
        same = ask(server.url, "/flow/predict", b"3")
        leaves = ask(server.url, "/wfpredict/leaves", b"3")
        failed = ask(server.url, "/wfpredict/flow", b'"refuse"')
        none = ask(server.url, "/wfpredict/none", b"3")

    assert one == same == (200, {"double": 6, "negate": -6})
    assert leaves == (200, {"double": 6, "negate": -3})
    assert failed[0] == 500
    assert (none[0], none[1]["type"]) == (404, "ModelNotFoundException")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_workflow_becomes_an_archive_of_servekit(tmp_path):
    war, new = write_war(tmp_path / "flow.war"), tmp_path / "new.mar"
    assert main(["migrate", str(war), "-o", str(new)]) == 0

    with ServedModel(new) as served:
        answer = served.wait_ready().post("/wfpredict/flow", b"3")

    assert json.loads(answer.body) == {"double": 6, "negate": -6}


def ask(url, path, body):
    """Return status and JSON."""
    connection = HTTPConnection(url.partition("://")[2], timeout=60)
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content)
