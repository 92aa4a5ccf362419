# SPDX-License-Identifier: Apache-2.0
"""How a model is run: in what memory, dtype, layout and sizes, and what its errors become."""

import logging
import shutil
from typing import NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from servekit_torch.outputs import named_outputs, to_array  # noqa: E402
from servekit_torch.running import ModelRunner  # noqa: E402
from servekit_torch.runs import RunSizes  # noqa: E402

from servekit import InputError  # noqa: E402
from servekit.errors import BootError, WrongBatchLength  # noqa: E402

pytestmark = pytest.mark.slow
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
BATCH = torch.export.Dim("batch")


def runner(call, **options):
    """Return what runs *call*, a function of tensors."""
    chosen = {"casts": {}, "names": [], "batched": True, "channels_last": False} | options
    return ModelRunner(
        call,
        lambda tensors: (tuple(tensors.values()), {}),
        chosen.pop("sizes", RunSizes()),
        torch.device("cpu"),
        logger=logging.getLogger("m"),
        **chosen,
    )


@pytest.fixture
def serve(load, tmp_path):
    """Return ``serve(module, *example, **options)``, which exports, loads and gives a service."""

    def export(module, *example, **options):
        dynamic = tuple({0: BATCH} for _ in example)
        program = torch.export.export(module, example, dynamic_shapes=dynamic)
        torch.export.save(program, tmp_path / "model.pt2")
        return load(**options)

    return export


@pytest.mark.parametrize("is_writable", [True, False])
def test_neither_inputs_nor_outputs_are_copied(is_writable):
    seen = []
    rows = ROWS.copy()
    rows.flags.writeable = is_writable
    found = runner(lambda x: seen.append(x.data_ptr()) or x).run_all({"x": rows})["output"]

    assert seen == [rows.ctypes.data]
    assert found.ctypes.data == rows.ctypes.data


def test_no_gradients_are_kept():
    modes = []
    runner(lambda x: modes.append(torch.is_inference_mode_enabled()) or x).run_all({"x": ROWS})

    assert modes == [True]


def test_a_model_that_writes_into_its_inputs_gets_copies(caplog):
    rows = ROWS.copy()
    running = runner(lambda x: x.add_(1))
    running.run_all({"x": ROWS.copy()})
    second = running.run_all({"x": rows})

    assert rows.tolist() == ROWS.tolist()
    assert second["output"].tolist() == (ROWS + 1).tolist()
    assert caplog.text.count("writes into its inputs") == 1


def test_padded_rows_never_reach_an_answer():
    sizes = []
    run = runner(lambda x: sizes.append(len(x)) or x * 2, sizes=RunSizes.of([2, 4], 1, None))
    found = run.run_all({"x": ROWS})

    assert sizes == [4, 2]
    assert found["output"].tolist() == (ROWS * 2).tolist()


@pytest.mark.parametrize("call", [lambda x: x[:1], lambda x: x.sum()], ids=["one row", "a number"])
def test_an_output_that_is_not_one_row_per_input_never_shifts_answers(call):
    with pytest.raises(WrongBatchLength, match="instead of 5 rows"):
        runner(call).run_all({"x": ROWS})


def test_images_are_channels_last():
    strides = []
    images = np.ones((2, 3, 8, 8), np.float32)
    runner(lambda x: strides.append(x.stride()) or x, channels_last=True).run_all({"x": images})

    assert strides == [(192, 1, 24, 3)]


def test_channels_last_weights_answer_the_same(serve):
    module = torch.nn.Conv2d(3, 4, 3).eval()
    images = np.random.default_rng(0).random((2, 3, 8, 8), dtype=np.float32)
    service = serve(module, torch.ones(2, 3, 8, 8), channels_last=True)
    with torch.inference_mode():
        expected = module(torch.from_numpy(images)).numpy()

    assert np.allclose(service.predict({"input": images}), expected, atol=1e-5)


def test_threads_are_those_of_the_context(serve):
    serve(torch.nn.ReLU(), torch.ones(2, 2))

    assert torch.get_num_threads() == 1


def test_a_compiled_model_compiles_once_for_each_size_before_it_serves(serve):
    from torch._dynamo.testing import CompileCounter  # counts instead of compiling

    counter = CompileCounter()
    torch._dynamo.reset()
    torch._dynamo.register_backend(counter, name="counting")
    options = {"compile": {"backend": "counting"}, "sizes": [1, 4]}
    service = serve(torch.nn.Linear(2, 3), torch.ones(2, 2), **options)
    compiled = counter.frame_count
    shapes = [service.predict({"input": ROWS[:count]}).shape for count in (1, 2, 3, 4, 5)]

    assert shapes == [(count, 3) for count in (1, 2, 3, 4, 5)]
    assert (compiled, counter.frame_count) == (2, 2)


def test_a_compiled_model_without_sizes_takes_any(serve):
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    torch._dynamo.reset()
    torch._dynamo.register_backend(counter, name="counting_any")
    service = serve(torch.nn.Linear(2, 3), torch.ones(2, 2), compile={"backend": "counting_any"})
    compiled = counter.frame_count
    for count in (1, 2, 3, 5):
        service.predict({"input": ROWS[:count]})

    assert counter.frame_count == compiled


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")  # the compiler uses what PyTorch deprecates
def test_the_compiler_of_pytorch_answers_the_same(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    module = torch.nn.Linear(2, 3).eval()
    service = serve(module, torch.ones(2, 2), compile=True, sizes=[4])
    with torch.inference_mode():
        expected = module(torch.from_numpy(ROWS)).numpy()

    assert np.allclose(service.predict({"input": ROWS}), expected, atol=1e-5)


class Picky(torch.nn.Module):
    """Looks rows up in a table of three."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding.from_pretrained(torch.eye(3))

    def forward(self, ids):
        return self.table(ids)


def failing(error):
    def call(*_arguments, **_keywords):
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(RuntimeError("shapes"), None, id="a refused input"),
        pytest.param(torch.OutOfMemoryError("CUDA out of memory"), MemoryError, id="the GPU's"),
        pytest.param(
            RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError, id="the CPU's"
        ),
        pytest.param(torch.AcceleratorError("device-side assert"), SystemExit, id="a dead device"),
        pytest.param(NotImplementedError("no kernel"), NotImplementedError, id="a missing kernel"),
        pytest.param(KeyError("x"), KeyError, id="a mistake of the model"),
    ],
)
def test_errors_become_what_the_server_knows(serve, error, expected):
    service = serve(Picky(), torch.zeros(2, dtype=torch.int64))
    service._runner._call = failing(error)
    batch = {"ids": np.array([0, 1])}
    if expected is None:
        refused = service.predict(batch)
        assert [type(each) for each in refused] == [InputError] * 2
    else:
        with pytest.raises(expected):
            service.predict(batch)


def test_a_single_bad_input_is_refused_without_its_details(serve):
    service = serve(Picky(), torch.zeros(2, dtype=torch.int64))
    (refused,) = service.predict({"ids": np.array([9])})

    assert str(refused) == "the model refuses this input (IndexError)"


class Split(NamedTuple):
    mean: torch.Tensor
    rest: torch.Tensor | None


class Named(dict):
    """Stands for the outputs of transformers."""


@pytest.mark.parametrize(
    ("result", "names", "expected"),
    [
        pytest.param(torch.ones(1), [], ["output"], id="a tensor"),
        pytest.param(torch.ones(1), ["y"], ["y"], id="a named tensor"),
        pytest.param((torch.ones(1),) * 2, [], ["output_0", "output_1"], id="a tuple"),
        pytest.param([torch.ones(1)] * 2, ["y"], ["y"], id="the first of a list"),
        pytest.param({"a": torch.ones(1), "b": None}, [], ["a"], id="a mapping"),
        pytest.param(Named(a=torch.ones(1), b=5), ["a"], ["a"], id="one of a mapping"),
        pytest.param(Split(torch.ones(1), None), [], ["mean"], id="a named tuple"),
    ],
)
def test_outputs_have_names(result, names, expected):
    assert [*named_outputs(result, names)] == expected


@pytest.mark.parametrize(
    ("result", "names", "message"),
    [
        pytest.param({"a": 5}, [], "output a is a int, not a tensor", id="a number"),
        pytest.param("text", [], "output output is a str", id="text"),
        pytest.param({"a": torch.ones(1)}, ["b"], "no output b; it has a", id="an unknown name"),
        pytest.param((torch.ones(1),), ["a", "b"], "no output b; it has a", id="too many names"),
    ],
)
def test_outputs_that_cannot_be_answered_are_named(result, names, message):
    with pytest.raises(BootError, match=message):
        named_outputs(result, names)


def test_bfloat16_becomes_float32():
    assert to_array(torch.ones(2, dtype=torch.bfloat16)).dtype == np.float32
