# SPDX-License-Identifier: Apache-2.0
"""Who holds the weights: the process, or the file that replicas share."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from servekit_onnx.weights import sharing_settings

PACKING = "session.disable_prepacking"
SIZE = 512  # a matrix of 1 MiB
OUTSIDE = {"save_as_external_data": True, "location": "model.data", "size_threshold": 0}


@pytest.fixture
def write_product(write_graph):
    """Return ``write_product(**how)``, which writes ``x @ w``."""
    w = np.random.default_rng(0).random((SIZE, SIZE), dtype=np.float32)

    def write(**how):
        weights = [numpy_helper.from_array(w, "w")]
        write_graph(
            f"x f n {SIZE}", f"y f n {SIZE}", ("MatMul", "x w", "y"), weights=weights, **how
        )
        return w

    return write


def mapped_bytes(path):
    """Return how much of *path* this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(os.fspath(path))]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


@pytest.mark.parametrize(
    ("how", "options", "replicas", "expected"),
    [
        pytest.param(OUTSIDE, {}, 2, True, id="several replicas share"),
        pytest.param(OUTSIDE, {}, 1, False, id="a single one packs"),
        pytest.param(OUTSIDE, {"share_weights": True}, 1, True, id="a single one may map"),
        pytest.param(OUTSIDE, {"share_weights": False}, 2, False, id="several may pack"),
        pytest.param({}, {"share_weights": True}, 2, False, id="weights in the graph are packed"),
    ],
)
def test_weights_are_shared_where_it_pays(
    write_product, load, tmp_path, how, options, replicas, expected
):
    w = write_product(**how)
    service = load(replicas=replicas, **options)

    assert (mapped_bytes(tmp_path / "model.data") >= w.nbytes) == expected
    assert service.predict({"x": np.ones((1, SIZE), np.float32)}).shape == (1, SIZE)


def test_a_session_option_has_the_last_word(write_product, load):
    write_product(**OUTSIDE)
    settings = load(
        replicas=2, session={PACKING: "0"}
    )._adapter._runner.session.get_session_options()

    assert settings.get_session_config_entry(PACKING) == "0"


@pytest.mark.parametrize("how", [{}, OUTSIDE], ids=["inside", "outside"])
def test_packed_weights_are_mapped_and_answer_the_same(write_product, load, tmp_path, how):
    w = write_product(**how)
    command = [sys.executable, "-m", "servekit_onnx", tmp_path / "model.onnx", tmp_path / "packed"]
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    service = load(replicas=2, file="packed/model.onnx")
    x = np.ones((3, SIZE), np.float32)

    assert sharing_settings(tmp_path / "packed/model.onnx") == {}
    assert mapped_bytes(tmp_path / "packed/model.data") >= w.nbytes
    assert np.allclose(service.predict({"x": x}), x @ w, rtol=1e-4)


@pytest.mark.parametrize(
    ("graph", "directory", "reason"),
    [
        pytest.param("model.onnx", ".", "holds the graph itself", id="over itself"),
        pytest.param("other.onnx", "packed", "other.onnx", id="missing"),
    ],
)
def test_what_cannot_be_packed_is_named(write_product, tmp_path, graph, directory, reason):
    write_product()
    command = [sys.executable, "-m", "servekit_onnx", graph, directory]
    failed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert failed.returncode
    assert reason in failed.stderr
