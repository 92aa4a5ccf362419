# SPDX-License-Identifier: Apache-2.0
"""Weights that a context maps."""

import io
import json
import logging
import mmap
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servekit import Context
from servekit.errors import BootError

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def context(tmp_path):
    """Return the context of a model in an empty directory."""
    (tmp_path / "model").mkdir()
    return Context(
        model="m", version="1.0", directory=tmp_path / "model", replica=0, max_batch_size=32,
        threads=1, options={}, logger=logging.getLogger("m"),
    )  # fmt: skip


def safetensors(data=b"", **entries):
    """Return a file of *entries*, each ``(dtype, shape, first, end)``."""
    header = json.dumps(
        {
            name: {"dtype": dtype, "shape": shape, "data_offsets": [first, end]}
            for name, (dtype, shape, first, end) in entries.items()
        }
    ).encode()
    return len(header).to_bytes(8, "little") + header + data


def npy(array, **how):
    """Return the bytes of a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def owner(array):
    """Return what holds the memory of *array*."""
    while (base := getattr(array, "base", None)) is not None:
        array = base
    return array.obj if isinstance(array, memoryview) else array


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(WEIGHTS, id="a matrix"),
        pytest.param(np.asfortranarray(WEIGHTS), id="columns first"),
        pytest.param(np.float64(3).reshape(()), id="a single number"),
    ],
)
def test_an_array_is_mapped_and_read_only(context, array):
    (context.directory / "weights.npy").write_bytes(npy(array))
    mapped = context.load_array("weights.npy")

    assert type(mapped) is np.ndarray
    assert isinstance(owner(mapped), mmap.mmap)
    assert not mapped.flags.writeable
    assert np.array_equal(mapped, array)


def test_the_arrays_of_a_safetensors_file_are_mapped_and_read_only(context):
    data = WEIGHTS.tobytes() + b"\x01\x00" + np.int64(-7).tobytes()
    file = safetensors(
        data,
        w=("F32", [3, 4], 0, 48), b=("BOOL", [2], 48, 50), n=("I64", [], 50, 58),
        none=("F64", [0, 3], 58, 58),
    )  # fmt: skip
    (context.directory / "model.safetensors").write_bytes(file)
    mapped = context.load_safetensors("model.safetensors")

    assert np.array_equal(mapped["w"], WEIGHTS)
    assert (mapped["b"].tolist(), mapped["n"].tolist()) == ([True, False], -7)
    assert mapped["none"].shape == (0, 3)
    assert isinstance(owner(mapped["w"]), mmap.mmap)
    assert not mapped["w"].flags.writeable


def test_bfloat16_and_float8_are_mapped_as_dtypes_of_ml_dtypes(context):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    arrays = {name: np.ones(3, getattr(ml_dtypes, kind)) * 2 for name, kind in kinds.items()}
    entries, end = {}, 0
    for name, array in arrays.items():
        entries[name] = (name, [3], end, end + array.nbytes)
        end += array.nbytes
    data = b"".join(array.tobytes() for array in arrays.values())
    (context.directory / "model.safetensors").write_bytes(safetensors(data, **entries))
    mapped = context.load_safetensors("model.safetensors")

    for name, array in mapped.items():
        assert array.dtype == arrays[name].dtype
        assert array.astype(float).tolist() == [2, 2, 2]
        assert isinstance(owner(array), mmap.mmap)


def test_without_ml_dtypes_they_say_what_to_install(context, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    (context.directory / "w").write_bytes(safetensors(bytes(2), x=("BF16", [1], 0, 2)))

    with pytest.raises(BootError, match="bfloat16 needs ml_dtypes, pip install ml_dtypes"):
        context.load_safetensors("w")


@pytest.mark.slow
def test_what_torch_has_saved_is_mapped(context):
    torch = pytest.importorskip("torch")
    saving = pytest.importorskip("safetensors.torch")
    pytest.importorskip("ml_dtypes")
    weights = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    saving.save_file({"w": weights}, context.directory / "w.safetensors")
    mapped = context.load_safetensors("w.safetensors")["w"]

    assert torch.equal(torch.from_numpy(mapped.view("int16").copy()).view(torch.bfloat16), weights)


def test_what_the_format_says_beside_the_arrays_is_left_out(context):
    header = b'{"__metadata__": {"format": "pt"}}'
    content = len(header).to_bytes(8, "little") + header
    (context.directory / "a.safetensors").write_bytes(content)

    assert context.load_safetensors("a.safetensors") == {}


PICKLED = npy(np.array([{}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("load", "content", "reason"),
    [
        pytest.param("array", PICKLED, "Python objects", id="objects are never unpickled"),
        pytest.param("array", b"PK\x03\x04 a zip", "magic string", id="not .npy"),
        pytest.param("array", b"", "cannot be mapped", id="empty .npy"),
        pytest.param("array", npy(WEIGHTS)[:-1], "cannot be mapped", id="cut .npy"),
        pytest.param("safetensors", b"", "cannot be mapped", id="empty"),
        pytest.param("safetensors", b"\xff" * 32, "cannot be mapped", id="endless header"),
        pytest.param("safetensors", b"\2" + bytes(7) + b"[]", "cannot be mapped", id="a list"),
        pytest.param(
            "safetensors", safetensors(bytes(2), x=("F4", [4], 0, 2)), "numpy has no F4",
            id="an element type that numpy lacks",
        ),
        pytest.param(
            "safetensors", safetensors(bytes(4), x=("F32", [2], 0, 8)), "not in the file",
            id="an array beyond the end",
        ),
        pytest.param(
            "safetensors", safetensors(bytes(8), x=("F32", [-1, -2], 0, 8)), "not in the file",
            id="sizes below zero",
        ),
        pytest.param(
            "safetensors", safetensors(bytes(8), x=("F32", [3], 0, 8)), "8 bytes are not F32 [3]",
            id="a shape that does not fill it",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_says_why(context, load, content, reason):
    (context.directory / "w").write_bytes(content)

    with pytest.raises(BootError) as refused:
        getattr(context, f"load_{load}")("w")
    assert str(refused.value).startswith("w: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        pytest.param("../w.npy", "is not in the model directory", id="above"),
        pytest.param("/etc/hostname", "is not in the model directory", id="elsewhere"),
        pytest.param("link.npy", "is not in the model directory", id="a link that leads out"),
        pytest.param("other.npy", "no such file", id="missing"),
        pytest.param(".", "no such file", id="a directory"),
    ],
)
def test_weights_lie_in_the_model_directory(context, file, reason):
    outside = context.directory.parent / "w.npy"
    outside.write_bytes(npy(WEIGHTS))
    (context.directory / "link.npy").symlink_to(outside)

    with pytest.raises(BootError, match=reason):
        context.load_array(file)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["F32", "", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries(
    {}, optional={"dtype": JSON, "shape": JSON, "data_offsets": JSON, "more": JSON}
)
HEADER = (JSON | st.dictionaries(st.text(max_size=3), ENTRY | JSON, max_size=3)).map(
    lambda value: json.dumps(value).encode()
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.binary(max_size=80)
    | HEADER.map(lambda text: len(text).to_bytes(8, "little") + text + bytes(8))
    | st.integers(1, 4000).map(lambda depth: (9000).to_bytes(8, "little") + b"[" * depth),
    st.binary(max_size=80) | st.integers(0, 140).map(lambda end: npy(WEIGHTS)[:end]),
)
def test_a_file_of_any_bytes_is_mapped_or_refused_in_one_line(context, tensors, array):
    reasons = {}
    for read, name, body in (
        (context.load_safetensors, "w.safetensors", tensors),
        (context.load_array, "w.npy", array),
    ):
        (context.directory / name).write_bytes(body)
        try:
            read(name)
        except BootError as error:
            reasons[name] = str(error)

    for name, reason in reasons.items():
        assert reason.startswith(f"{name}: cannot be mapped as ")
        assert "\n" not in reason
