# SPDX-License-Identifier: Apache-2.0
"""Replicas of a model hold its weights once: the memory of real workers, from the kernel."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from .conftest import BIN

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

REPLICAS = 4
MB = 1_000_000
OWN_BYTES = 60 * MB  #: what a worker may have for itself: its interpreter, numpy, the service
SKLEARN_BYTES = 80 * MB  #: what ``import sklearn`` takes beyond that; it imports pandas if it can
SHARE = 1.3  #: of the weights, in all workers together

MAPPED = """
import numpy as np
from servekit import Service


class Mapped(Service):
    def load(self, context):
        self.weights = context.load_array("weights.npy")

    def warm_up(self):
        self.total = float(self.weights.sum(dtype="float64"))

    def predict(self, batch):
        return [self.total for _ in batch]
"""


def proportional_bytes(pid):
    """Return the PSS of a process: a page that n processes share counts 1/n."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024


def array_model(directory, size_bytes):
    """Write a model whose service maps ``.npy`` weights and sums them once; return its sum."""
    weights = np.random.default_rng(0).random(size_bytes // 4, dtype=np.float32)
    np.save(directory / "weights.npy", weights)
    (directory / "service.py").write_text(MAPPED)
    (directory / "model.toml").write_text('name = "m"\nservice = "service:Mapped"\n')
    return float(weights.sum(dtype="float64"))


def joblib_model(directory, size_bytes):
    """Write a linear model of *size_bytes* of coefficients; return its answer to ones."""
    import joblib
    from sklearn.linear_model import LinearRegression

    features = 1000
    model = LinearRegression()
    model.coef_ = np.random.default_rng(0).random((size_bytes // 8 // features, features))
    model.intercept_ = np.zeros(len(model.coef_))
    model.n_features_in_ = features
    joblib.dump(model, directory / "model.joblib")
    return model.coef_.sum(axis=1)[0]


def onnx_model(directory, size_bytes):
    """Write a graph of matrix products with external data; return its answer to ones."""
    import onnx
    from onnx import helper, numpy_helper

    features, layers = 1000, size_bytes // 4 // 1000**2
    products = [np.random.default_rng(i).random((features, features), np.float32) / 500
                for i in range(layers)]  # fmt: skip
    names = [*(f"x{i}" for i in range(layers)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)],
        "products",
        [helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, ["n", features])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", features])],
        [numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(products)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, directory / "model.onnx", save_as_external_data=True, location="model.data")
    toml = f'name = "m"\nservice = "onnx"\n[worker]\nreplicas = {REPLICAS}\n'
    (directory / "model.toml").write_text(toml)
    return float((np.ones((1, features), np.float32) @ np.linalg.multi_dot(products))[0, 0])


def ones(features):
    """Return a JSON array for one input."""
    return json.dumps([1] * features).encode()


@pytest.mark.parametrize(
    ("write", "size_bytes", "own_bytes", "body"),
    [
        pytest.param(array_model, 80 * MB, OWN_BYTES, b"[]", id="an array"),
        pytest.param(
            joblib_model, 60 * MB, OWN_BYTES + SKLEARN_BYTES, ones(1000),
            id="an uncompressed joblib file",
        ),
        pytest.param(onnx_model, 60 * MB, OWN_BYTES, ones(1000), id="ONNX external data"),
        pytest.param(
            array_model, 200 * MB, OWN_BYTES, b"[]", id="a large array", marks=pytest.mark.slow
        ),
    ],
)  # fmt: skip
def test_replicas_hold_their_weights_once(
    serve, tmp_path, record_property, write, size_bytes, own_bytes, body
):
    (tmp_path / "m").mkdir()
    expected = write(tmp_path / "m", size_bytes)
    subprocess.run([BIN / "servekit-archive", "build", "m"], cwd=tmp_path, check=True)
    server = serve("--models", tmp_path / "m.mar", "--replicas", REPLICAS)
    for replica in range(REPLICAS):
        server.wait_for(f"m/{replica} ready")  # each has looked at all weights
    used = [proportional_bytes(pid) for pid in server.workers()]
    record_property("pss_mb", [round(size / MB) for size in used])
    answer = json.loads(server.post("/m/predict", body)[2])

    assert np.ravel(answer["prediction"])[0] == pytest.approx(expected, rel=1e-3)
    assert len(used) == REPLICAS
    assert sum(used) <= SHARE * size_bytes + REPLICAS * own_bytes
