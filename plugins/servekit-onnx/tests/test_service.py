# SPDX-License-Identifier: Apache-2.0
"""The service ``onnx``, driven as a worker drives it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from servekit import InputError
from servekit.errors import BootError

ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
NEGATE = ("Neg", "x", "y")


@pytest.mark.parametrize(
    ("axis", "described"),
    [
        pytest.param("n", [2], id="a symbolic batch axis runs the batch at once"),
        pytest.param("1", [2], id="a batch axis of 1 runs one by one"),
        pytest.param("4", [2], id="a batch axis of 4 runs 4 and a padded rest"),
        pytest.param("5", [2], id="a batch axis of just the size runs once"),
        pytest.param("8", [2], id="a batch axis beyond the batch is padded"),
    ],
)
def test_the_batch_axis_is_handled(write_graph, load, axis, described):
    write_graph(f"x f {axis} 2", f"y f {axis} 2", NEGATE)
    service = load()

    assert service.signature["inputs"] == [{"name": "x", "dtype": "float32", "shape": described}]
    assert service.predict({"x": ROWS}).tolist() == (-ROWS).tolist()


def test_symbolic_axes_take_any_size(write_graph, load):
    write_graph("x f n width 3", "y f n width 3", NEGATE)
    service = load()

    assert service.signature["inputs"][0]["shape"] == [-1, 3]
    assert service.predict({"x": np.ones((2, 7, 3), np.float32)}).shape == (2, 7, 3)


def test_several_outputs_go_by_name_and_one_can_be_chosen(write_graph, load):
    write_graph("x f n 2", "y f n 2, z f n 2", NEGATE, ("Abs", "x", "z"))
    both = load().predict({"x": ROWS})
    chosen = load(outputs=["z"]).predict({"x": ROWS})

    assert {name: rows.tolist() for name, rows in both.items()} == {
        "y": (-ROWS).tolist(),
        "z": ROWS.tolist(),
    }
    assert chosen.tolist() == ROWS.tolist()


def test_a_graph_without_a_batch_axis_runs_item_by_item(write_graph, load):
    write_graph("x f 2, k f", "y f 2", ("Mul", "x k", "y"))
    outputs = load(batched=False).predict({"x": ROWS, "k": np.arange(5, dtype=np.float32)})

    assert [row.tolist() for row in outputs] == (ROWS * np.arange(5)[:, None]).tolist()


def test_text_goes_through(write_graph, load):
    write_graph("x s n", "y s n", ("Identity", "x", "y"))
    service = load()

    assert service.signature["inputs"] == [{"name": "x", "dtype": "str", "shape": []}]
    assert service.predict({"x": np.array(["a", "bc"], dtype=object)}).tolist() == ["a", "bc"]


def test_an_index_beyond_the_table_is_refused_alone(write_graph, load):
    table = numpy_helper.from_array(np.eye(3, dtype=np.float32), "table")
    write_graph("x i n", "y f n 3", ("Gather", "table x", "y"), weights=[table])
    first, refused, last = load().predict({"x": np.array([0, 7, 2])})

    assert isinstance(refused, InputError)
    assert (first.tolist(), last.tolist()) == ([1, 0, 0], [0, 0, 1])


def test_maps_are_answered_item_by_item(load, tmp_path):
    zipmap = helper.make_node(
        "ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]
    )
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, element))
    graph = helper.make_graph(
        [zipmap, helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)],
        "maps",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_value_info("p", maps),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "model.onnx")
    service = load()

    assert [tensor["name"] for tensor in service.signature["outputs"]] == ["label"]
    assert service.predict({"x": ROWS[:1]}) == [{"label": 1, "p": {"no": 0.0, "yes": 1.0}}]


def test_weights_in_a_file_beside_the_graph_are_found(write_graph, load, tmp_path):
    weights = numpy_helper.from_array(np.eye(2, dtype=np.float32) * 3, "w")
    outside = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 0}
    write_graph("x f n 2", "y f n 2", ("MatMul", "x w", "y"), weights=[weights], **outside)

    assert (tmp_path / "weights.data").stat().st_size
    assert load().predict({"x": ROWS}).tolist() == (ROWS * 3).tolist()


def test_a_declared_signature_may_narrow_the_graph(write_graph, load):
    write_graph("x f n width", "y f n width", NEGATE)
    declared = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}

    assert load(signature=declared).signature == declared


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        pytest.param("x f n", {"file": "b.onnx"}, "'b.onnx' is not in", id="missing file"),
        pytest.param(
            "x f n", {"fiel": "x"}, "fiel: unknown option, did you mean file?", id="unknown option"
        ),
        pytest.param("x f n", {"providers": ["Abacus"]}, "'Abacus' is not", id="provider"),
        pytest.param("x f n", {"outputs": ["z"]}, "'z' is not one of y", id="output"),
        pytest.param("x f n", {"session": {"speed": 9}}, "'speed' is not", id="session option"),
        pytest.param(
            "x f n", {"session": {"execution_mode": "x"}}, "'x' does not fit", id="session value"
        ),
        pytest.param("x f", {}, "has no batch axis; set", id="a scalar has no batch axis"),
        pytest.param(
            "x f n",
            {"signature": {"inputs": [{"name": "x", "dtype": "int64", "shape": []}]}},
            "int64[0]",
            id="a declared signature that differs",
        ),
    ],
)
def test_what_cannot_be_served_is_named(write_graph, load, shapes, options, message):
    write_graph(shapes, shapes.replace("x", "y"), NEGATE)
    with pytest.raises(BootError) as refused:
        load(**options)

    assert message in str(refused.value)


def test_first_axes_that_differ_are_no_batch(write_graph, load):
    write_graph("x f 1 2, k f 4", "y f 1 2, z f 4", NEGATE, ("Neg", "k", "z"))

    with pytest.raises(BootError, match=r"x 1, k 4"):
        load()


def test_an_output_that_is_not_one_row_per_input_never_shifts_answers(write_graph, load):
    write_graph("x f n 2", "y f 1 2", ("ReduceSum", "x axis", "y"), weights=[
        numpy_helper.from_array(np.array([0]), "axis")
    ])  # fmt: skip

    with pytest.raises(ValueError, match="output y has 1 instead of 5 rows"):
        load().predict({"x": ROWS})


def test_session_options_and_entries_are_set(write_graph, load):
    write_graph("x f n 2", "y f n 2", NEGATE)
    entry = "session.intra_op.allow_spinning"
    service = load(session={"graph_optimization_level": "disable_all", entry: "1"})
    settings = service._adapter._runner.session.get_session_options()

    assert settings.graph_optimization_level.name == "ORT_DISABLE_ALL"
    assert settings.get_session_config_entry(entry) == "1"
    assert (settings.intra_op_num_threads, settings.inter_op_num_threads) == (1, 1)


def broken(body):
    """Yield *body* cut short, and with a byte of it changed."""
    yield from (b"", b"no graph", b"\0" * 64, b"\xff" * 64)
    yield from (body[:end] for end in range(1, len(body), 7))
    for place in range(len(body)):
        yield body[:place] + b"\x99" + body[place + 1 :]


def test_a_broken_graph_is_refused_in_one_line(write_graph, load, tmp_path):
    write_graph("x f n 2", "y f n 2", NEGATE)
    path = tmp_path / "model.onnx"
    refused: list[BootError] = []
    for body in broken(path.read_bytes()):
        path.write_bytes(body)
        try:
            load()
        except BootError as error:
            refused.append(error)

    assert len(refused) > 50
    assert not any("\n" in str(error) or error.__cause__ for error in refused)
