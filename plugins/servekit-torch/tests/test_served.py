# SPDX-License-Identifier: Apache-2.0
"""PyTorch models behind a running server: without code, with their weights once, in pipelines."""

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402

from servekit.testing import ServedModel  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
MB = 1_000_000
REPLICAS = 4
EXAMPLE = Path(__file__).parents[3] / "examples/torch-digits"
SIZE, LAYERS = 1600, 8  # 82 MB
WEIGHT_BYTES = LAYERS * SIZE * SIZE * 4
OWN_BYTES = 230 * MB  #: what a worker may have for itself, most of it PyTorch's
EXPORT_BYTES = 100 * MB  #: what importing torch.export takes beyond that
SHARE = 1.3  #: of the weights, in all workers together
NET = """
import torch


class Product(torch.nn.Sequential):
    def __init__(self, size, layers):
        super().__init__(*(torch.nn.Linear(size, size) for _ in range(layers)))

    def forward(self, x):
        return super().forward(x)
"""
INPUTS = f"""
[[signature.inputs]]
name = "x"
dtype = "float32"
shape = [{SIZE}]
"""
CLASS = f"""
[options]
class = "net:Product"
arguments = {{ size = {SIZE}, layers = {LAYERS} }}
"""
PIPELINE = """
name = "chain"
pipeline = ["make", "double", "tell"]

[stages.make]
service = "service:Make"

[stages.double]
service = "torch"
options.file = "double.pt2"
COLOCATED

[stages.tell]
service = "service:Tell"
COLOCATED
"""
STAGES = """
import torch
from servekit import Service


class Make(Service):
    def predict(self, batch):
        return [{"x": torch.full((3,), float(value))} for value in batch]


class Tell(Service):
    def predict(self, batch):
        return [torch.as_tensor(value).sum() for value in batch]
"""


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


def product():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(SIZE, SIZE) for _ in range(LAYERS))).eval()


def save_program(module, directory, example=(2, SIZE), name="model.pt2"):
    example, dynamic = torch.ones(example), ({0: torch.export.Dim("batch")},)
    program = torch.export.export(module, (example,), dynamic_shapes=dynamic)
    torch.export.save(program, directory / name)


def save_script(module, directory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        torch.jit.save(torch.jit.trace(module, torch.ones(1, SIZE)), directory / "model.pt")


def save_weights(module, directory):
    save_file(module.state_dict(), directory / "net.safetensors")
    (directory / "net.py").write_text(NET)
    (directory / "model.toml").write_text(f'service = "torch"\n{INPUTS}{CLASS}')


def save_state(module, directory):
    save_weights(module, directory)
    (directory / "net.safetensors").unlink()
    torch.save(module.state_dict(), directory / "net.pt")


def proportional_bytes(pid):
    """Return the PSS of a process: a page that n processes share counts 1/n."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024


def mapped_bytes(pid, directory):
    """Return the PSS of what a process has mapped of the files in *directory*."""
    found = re.findall(
        rf"^\S+ \S+ \S+ \S+ \S+ +{directory}/.*\n(?:.*\n)*?Pss:\s+(\d+) kB",
        Path(f"/proc/{pid}/smaps").read_text(),
        re.MULTILINE,
    )
    return sum(map(int, found)) * 1024


@pytest.mark.parametrize(
    ("save", "own_bytes"),
    [
        pytest.param(save_program, OWN_BYTES + EXPORT_BYTES, id="torch.export"),
        pytest.param(save_script, OWN_BYTES, id="TorchScript"),
        pytest.param(save_weights, OWN_BYTES, id="safetensors"),
        pytest.param(save_state, OWN_BYTES, id="a state dict"),
    ],
)
def test_replicas_hold_their_weights_once(tmp_path, record_property, save, own_bytes):
    module, directory = product(), tmp_path / "m"
    directory.mkdir()
    save(module, directory)
    with ServedModel(directory, replicas=REPLICAS) as served:
        served.log.wait_for("worker_ready", count=REPLICAS)  # each has run all layers
        workers = [served.worker_pid(replica) for replica in range(REPLICAS)]
        used = [proportional_bytes(pid) for pid in workers]
        mapped = [mapped_bytes(pid, directory) for pid in workers]
        answer = served.predict([1.0] * SIZE).prediction
    record_property("pss_mb", [round(size / MB) for size in used])

    with torch.inference_mode():
        expected = module(torch.ones(1, SIZE))[0].numpy()

    assert np.allclose(answer, expected, atol=1e-4)
    assert 0.9 * WEIGHT_BYTES <= sum(mapped) <= SHARE * WEIGHT_BYTES
    assert sum(used) <= SHARE * WEIGHT_BYTES + REPLICAS * own_bytes


@pytest.mark.parametrize("colocated", ["", 'colocated = "make"'], ids=["processes", "one process"])
def test_tensors_pass_from_stage_to_stage(tmp_path, colocated):
    save_program(Double(), tmp_path, example=(2, 3), name="double.pt2")
    (tmp_path / "service.py").write_text(STAGES)
    (tmp_path / "model.toml").write_text(PIPELINE.replace("COLOCATED", colocated))
    with ServedModel(tmp_path) as served:
        served.wait_ready()

        assert served.post("/chain/predict", b"5").json()["prediction"] == 30.0


@pytest.mark.parametrize("save", [save_state, save_script, save_program])
def test_a_policy_without_pickles_refuses_all_but_safetensors(tmp_path, save):
    save(torch.nn.Linear(SIZE, 1), tmp_path)
    with ServedModel(tmp_path, policy="no-pickle") as served:
        served.process.wait(60)

        assert "(rule no-pickle)" in served.log.text


def test_the_example_reads_a_digit(tmp_path):
    left_out = shutil.ignore_patterns("*.pt2", "__pycache__")
    model = shutil.copytree(EXAMPLE, tmp_path / "torch-digits", ignore=left_out)
    subprocess.run([sys.executable, model / "train.py"], check=True, timeout=100)
    readme = (EXAMPLE / "README.md").read_text()
    body = re.search(r"-d '(\{.*?\})'", readme, re.DOTALL)[1]
    with ServedModel(model) as served:
        served.wait_ready()
        answer = served.post("/torch-digits/predict", body.encode()).prediction

    assert answer["digit"] == 3
    assert answer["probabilities"][3] > 0.9
