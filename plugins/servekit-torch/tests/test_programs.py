# SPDX-License-Identifier: Apache-2.0
"""Programs of ``torch.export``, served as they are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from servekit import InputError  # noqa: E402
from servekit.errors import BootError  # noqa: E402

pytestmark = pytest.mark.slow
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
BATCH = torch.export.Dim("batch")


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Both(torch.nn.Module):
    def forward(self, x, k):
        return {"product": x * k[:, None], "sum": x.sum(1)}


class Pair(torch.nn.Module):
    def forward(self, x):
        return x + 1, x.argmax(1)


class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding.from_pretrained(torch.eye(3))

    def forward(self, ids):
        return self.table(ids)


class Scaled(torch.nn.Module):
    def forward(self, x, factor=3.0):
        return x * factor


@pytest.fixture
def export(tmp_path):
    """Return ``export(module, *example, **dynamic)``, which writes ``model.pt2``."""

    def write(module, *example, dynamic=None, **keywords):
        program = torch.export.export(module, example, keywords or None, dynamic_shapes=dynamic)
        torch.export.save(program, tmp_path / "model.pt2")

    return write


@pytest.mark.parametrize(
    ("rows", "dynamic"),
    [
        pytest.param(3, {"x": {0: BATCH}}, id="a dynamic batch axis runs the batch at once"),
        pytest.param(1, None, id="a batch axis of 1 runs one by one"),
        pytest.param(4, None, id="a batch axis of 4 runs 4 and a padded rest"),
        pytest.param(8, None, id="a batch axis beyond the batch is padded"),
        pytest.param(
            3, {"x": {0: torch.export.Dim("few", min=2, max=4)}}, id="a bounded axis is cut"
        ),
    ],
)
def test_the_batch_axis_is_handled(export, load, rows, dynamic):
    export(Double(), torch.ones(rows, 2), dynamic=dynamic)
    service = load()

    assert service.signature["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2]}]
    assert service.signature["outputs"] == [{"name": "output", "dtype": "float32", "shape": [2]}]
    assert service.predict({"x": ROWS}).tolist() == (ROWS * 2).tolist()


def test_dynamic_axes_take_any_size(export, load):
    export(Double(), torch.ones(3, 4, 3), dynamic={"x": {0: BATCH, 1: torch.export.Dim("width")}})
    service = load()

    assert service.signature["inputs"][0]["shape"] == [-1, 3]
    assert service.predict({"x": np.ones((2, 7, 3), np.float32)}).shape == (2, 7, 3)


def test_outputs_of_a_mapping_go_by_name_and_one_can_be_chosen(export, load):
    dynamic = {"x": {0: BATCH}, "k": {0: BATCH}}
    export(Both(), torch.ones(3, 2), torch.ones(3), dynamic=dynamic)
    batch = {"x": ROWS, "k": np.arange(5, dtype=np.float32)}
    both, chosen = load(), load(outputs=["sum"])

    assert [each["name"] for each in both.signature["inputs"]] == ["x", "k"]
    assert [each["name"] for each in both.signature["outputs"]] == ["product", "sum"]
    assert both.predict(batch)["product"].tolist() == (ROWS * np.arange(5)[:, None]).tolist()
    assert chosen.predict(batch).tolist() == ROWS.sum(1).tolist()


def test_outputs_of_a_tuple_can_be_named(export, load):
    export(Pair(), torch.ones(3, 2), dynamic={"x": {0: BATCH}})
    named, plain = load(outputs=["next", "largest"]), load()

    assert named.signature["outputs"][1] == {"name": "largest", "dtype": "int64", "shape": []}
    assert named.predict({"x": ROWS})["largest"].tolist() == [1] * 5
    assert [*plain.predict({"x": ROWS})] == ["output_0", "output_1"]


def test_constants_of_the_export_are_kept(export, load):
    export(Scaled(), torch.ones(3, 2), 5.0, dynamic={"x": {0: BATCH}, "factor": None})

    assert load().predict({"x": ROWS}).tolist() == (ROWS * 5).tolist()


def test_a_keyword_is_an_input(export, load):
    export(Double(), x=torch.ones(3, 2), dynamic={"x": {0: BATCH}})

    assert load().predict({"x": ROWS}).tolist() == (ROWS * 2).tolist()


def test_a_program_without_a_batch_axis_runs_item_by_item(export, load):
    export(Double(), torch.ones(2))
    service = load(batched=False)

    assert service.signature["inputs"][0]["shape"] == [2]
    assert [row.tolist() for row in service.predict({"x": ROWS})] == (ROWS * 2).tolist()


def test_an_index_beyond_the_table_is_refused_alone(export, load):
    export(Lookup(), torch.zeros(3, dtype=torch.int64), dynamic={"ids": {0: BATCH}})
    first, refused, last = load().predict({"ids": np.array([0, 7, 2])})

    assert isinstance(refused, InputError)
    assert (first.tolist(), last.tolist()) == ([1, 0, 0], [0, 0, 1])


def test_a_declared_signature_may_narrow_the_program(export, load):
    dynamic = {"x": {0: BATCH, 1: torch.export.Dim("width")}}
    export(Double(), torch.ones(3, 4), dynamic=dynamic)
    declared = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}
    found = load(signature=declared).signature

    assert found["inputs"] == declared["inputs"]
    assert found["outputs"][0]["shape"] == [-1]


@pytest.mark.parametrize(
    ("signature", "options", "message"),
    [
        pytest.param(None, {"file": "b.pt2"}, "'b.pt2' is not in", id="missing file"),
        pytest.param(None, {"fiel": "x"}, "fiel: unknown option, did you mean file?", id="option"),
        pytest.param(None, {"outputs": ["y", "z"]}, "no output y; it has output", id="output"),
        pytest.param(None, {"dtype": "float16"}, "export it with another", id="dtype"),
        pytest.param(None, {"device": "abacus"}, "'abacus' cannot be used", id="device"),
        pytest.param(None, {"compile": {"backend": "x"}}, "compile: ", id="compiler"),
        pytest.param(
            [{"name": "x", "dtype": "int64", "shape": []}], {}, "int64[0]", id="another signature"
        ),
    ],
)
def test_what_cannot_be_served_is_named(export, load, signature, options, message):
    export(Double(), torch.ones(3, 2), dynamic={"x": {0: BATCH}})
    with pytest.raises(BootError) as refused:
        load(signature={"inputs": signature, "outputs": []} if signature else None, **options)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_scalar_has_no_batch_axis(export, load):
    export(Double(), torch.tensor(1.0))

    with pytest.raises(BootError, match="no batch axis; set"):
        load()


def test_a_broken_file_is_refused_in_one_line(export, load, tmp_path):
    export(Double(), torch.ones(3, 2))
    path = tmp_path / "model.pt2"
    body = path.read_bytes()
    for broken in (b"", b"no program", body[:100], body[: len(body) // 2], body[:-30]):
        path.write_bytes(broken)
        with pytest.raises(BootError, match=r"model\.pt2: torch cannot read it") as refused:
            load()

        assert "\n" not in str(refused.value)


def test_a_program_may_be_called_pt(export, load, tmp_path):
    export(Double(), torch.ones(2, 2), dynamic={"x": {0: BATCH}})
    (tmp_path / "model.pt2").rename(tmp_path / "model.pt")

    assert load().predict({"x": ROWS}).tolist() == (ROWS * 2).tolist()
