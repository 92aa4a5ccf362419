# SPDX-License-Identifier: Apache-2.0
"""``servekit start NAME=/mnt/models``, whatever a platform has put there for a model.

The directory is read-only and belongs to another user, and the server's user has neither a name nor
a home; only ``/tmp`` can be written to.
"""

import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from servekit_archiver import build_archive, open_archive

from tests.e2e.pods import USER, WAIT_S, Pod, needs_pods

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # MLflow, when it writes a model
    needs_pods,
]
ROWS = np.random.default_rng(3).random((60, 4)).astype("float32")
TARGET = ROWS.sum(axis=1)
ROW = [0.1, 0.2, 0.3, 0.4]
SERVICE = """
from servekit import Service


class Sum(Service):
    def predict(self, batch: list[list[float]]) -> list[float]:
        return [sum(values) for values in batch]
"""


def write_model_directory(place):
    (place / "model.toml").write_text('name = "sum"\nservice = "service:Sum"\n')
    (place / "service.py").write_text(SERVICE)
    return sum(ROW)


def write_archive(place):
    source = place / "source"
    source.mkdir()
    expected = write_model_directory(source)
    build_archive(source, place / "model.mar")
    for path in source.iterdir():
        path.unlink()
    source.rmdir()
    return expected


def write_unpacked_archive(place):
    expected = write_archive(place)
    with open_archive(place / "model.mar") as archive:
        archive.extract(place / "out", with_manifest=True)
    (place / "model.mar").unlink()
    for path in (place / "out").iterdir():
        path.rename(place / path.name)
    (place / "out").rmdir()
    return expected


def fitted():
    return pytest.importorskip("sklearn.linear_model").LinearRegression().fit(ROWS, TARGET)


def write_joblib(place):
    import joblib

    joblib.dump(model := fitted(), place / "model.joblib")
    return model.predict([ROW])[0]


def write_pickle(place):
    (place / "model.pkl").write_bytes(pickle.dumps(model := fitted()))
    return model.predict([ROW])[0]


def write_skops(place):
    io = pytest.importorskip("skops.io")
    io.dump(model := fitted(), place / "model.skops")
    return model.predict([ROW])[0]


def write_mlflow(place):
    sklearn = pytest.importorskip("mlflow.sklearn")
    sklearn.save_model(
        model := fitted(), place / "m", skops_trusted_types=None, serialization_format="pickle"
    )
    for path in (place / "m").iterdir():
        path.rename(place / path.name)
    (place / "m").rmdir()
    (place / "requirements.txt").write_text("scikit-learn\n")
    return model.predict([ROW])[0]


def write_onnx(place):
    onnx = pytest.importorskip("onnx")
    sides = [onnx.helper.make_tensor_value_info(name, 1, ["n", 4]) for name in "xy"]
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "negative", sides[:1], sides[1:])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), place / "m.onnx")
    return [-value for value in ROW]


def write_xgboost(name):
    def write(place):
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.train({"nthread": 1}, xgboost.DMatrix(ROWS, TARGET), 4)
        model.save_model(place / "saved.ubj" if name.endswith(".bst") else place / name)
        if name.endswith(".bst"):
            (place / "saved.ubj").rename(place / name)
        return float(model.predict(xgboost.DMatrix(np.float32([ROW])))[0])

    return write


def write_lightgbm(name):
    def write(place):
        lightgbm = pytest.importorskip("lightgbm")
        settings = {"verbose": -1, "num_threads": 1}
        model = lightgbm.train(settings, lightgbm.Dataset(ROWS, TARGET), 4)
        model.save_model(place / name)
        return float(model.predict(np.float32([ROW]))[0])

    return write


def write_torchscript(place):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(4, 2).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated; its files are still there
        torch.jit.trace(module, torch.ones(2, 4)).save(place / "model.pt")
    return module(torch.tensor([ROW]))[0].tolist()


def write_program(name):
    def write(place):
        torch = pytest.importorskip("torch")
        module, sizes = torch.nn.Linear(4, 2).eval(), {0: torch.export.Dim("batch")}
        program = torch.export.export(module, (torch.ones(2, 4),), dynamic_shapes=(sizes,))
        torch.export.save(program, place / name)
        return module(torch.tensor([ROW]))[0].tolist()

    return write


def write_torchserve(place):
    """Write what KServe's runtime for TorchServe wants."""
    import zipfile

    manifest = {"model": {"modelName": "summing", "handler": "handler.py", "modelVersion": "1.0"}}
    handler = "def handle(data, context):\n"
    handler += "    return data and [sum(tensor['data']) for tensor in data]\n"
    (place / "config").mkdir()
    (place / "model-store").mkdir()
    with zipfile.ZipFile(place / "model-store/summing.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.writestr("handler.py", handler)
    stored = {"1.0": {"defaultVersion": True, "marName": "summing.mar", "batchSize": 1}}
    snapshot = {"name": "startup.cfg", "modelCount": 1, "models": {"summing": stored}}
    text = f"service_envelope=kservev2\nmodel_snapshot={json.dumps(snapshot)}\n"
    (place / "config/config.properties").write_text(text)
    return sum(ROW)


FORMATS = {
    "an archive": write_archive,
    "a model directory": write_model_directory,
    "an unpacked archive": write_unpacked_archive,
    "scikit-learn: model.joblib": write_joblib,
    "scikit-learn: model.pkl": write_pickle,
    "scikit-learn: model.skops": write_skops,
    "MLflow": write_mlflow,
    "ONNX": write_onnx,
    "XGBoost: model.json": write_xgboost("model.json"),
    "XGBoost: model.ubj": write_xgboost("model.ubj"),
    "XGBoost: model.bst": write_xgboost("model.bst"),
    "LightGBM: model.txt": write_lightgbm("model.txt"),
    "LightGBM: model.bst": write_lightgbm("model.bst"),
    "TorchScript: model.pt": write_torchscript,
    "torch.export: model.pt2": write_program("model.pt2"),
    "torch.export: model.pt": write_program("model.pt"),
    "TorchServe: config and model-store": write_torchserve,
}

ENVELOPED = ("TorchServe: config and model-store",)  #: answer the Open Inference Protocol alone


@pytest.fixture
def place(tmp_path):
    """Return a directory for a model, which others can read whatever the umask is."""
    directory = tmp_path / "models"
    directory.mkdir()
    yield directory
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("form", FORMATS)
def test_what_a_storage_initializer_has_downloaded_is_served(place, form):
    expected = FORMATS[form](place)
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with Pod(place, "start", "iris=/mnt/models", SERVEKIT_CACHE_DIR="/tmp/cache") as pod:
        pod.ready()
        if form not in ENVELOPED:
            assert predict(pod) == pytest.approx(np.ravel(expected), rel=1e-5)
        assert infer(pod, form) == pytest.approx(np.ravel(expected), rel=1e-5)
        assert pod.stop() == 0


def predict(pod):
    """Return the values that the path of the model answers for ``ROW``."""
    status, body = pod.ask("/iris/predict", json.dumps(ROW).encode())
    assert status == 200, body
    return np.ravel(json.loads(body)["prediction"])


def infer(pod, form):
    """Return the values that the Open Inference Protocol answers for ``ROW``."""
    tensor = {"name": "x", "datatype": "FP32"}
    if form not in ENVELOPED:
        (tensor,) = json.loads(pod.ask("/v2/models/iris")[1])["inputs"]
    data = [json.dumps(ROW)] if tensor["datatype"] == "BYTES" else ROW
    asked = tensor | {"data": data, "shape": [1, len(data)]}
    status, body = pod.ask("/v2/models/iris/infer", json.dumps({"inputs": [asked]}).encode())
    assert status == 200, body
    (output,) = json.loads(body)["outputs"]
    return np.ravel(
        [json.loads(each) if isinstance(each, str) else each for each in output["data"]]
    )


#: the first process of the other container: its root is *place*, and its user that of the pod
MODELCAR = f"""
import ctypes, os, sys
os.chroot(sys.argv[1])
os.setgid(0)
os.setuid({USER})
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, which a change of the user has taken away
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_model_in_the_image_of_another_container_is_served(place, tmp_path):
    """KServe runs the image of ``oci://`` beside the pod, and links to its files through /proc."""
    write_model_directory(place)
    command = [sys.executable, "-c", MODELCAR, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"ready\n"
        (tmp_path / "link").symlink_to(f"/proc/{other.pid}/root/models")
        tmp_path.chmod(0o755)
        with Pod(tmp_path / "link", "start", "sum=/mnt/models") as pod:
            status, body = pod.ready().ask("/sum/predict", json.dumps(ROW).encode())
        other.communicate(timeout=WAIT_S)

    assert (status, json.loads(body)) == (200, {"prediction": pytest.approx(sum(ROW))})
