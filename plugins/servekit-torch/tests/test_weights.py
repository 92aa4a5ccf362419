# SPDX-License-Identifier: Apache-2.0
"""Weights are the pages of their file, whatever the format."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402

pytestmark = pytest.mark.slow
SIZE = 512  # a matrix of 1 MiB
X = np.random.default_rng(0).random((3, SIZE), dtype=np.float32)
SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [SIZE]}], "outputs": []}
PRODUCT = """
import torch


class Product(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(3)))

    def forward(self, x):
        return self.layers(x)
"""


@pytest.fixture
def product(write_code):
    """Return a module of three matrices, whose class is the model's."""
    write_code("product", PRODUCT)
    import product

    return product.Product().eval()


def save_program(module, path):
    dynamic = {"x": {0: torch.export.Dim("batch")}}
    torch.export.save(
        torch.export.export(module, (torch.ones(2, SIZE),), dynamic_shapes=dynamic), path
    )


def save_trace(module, path, change=lambda module: module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated
        torch.jit.save(change(torch.jit.trace(module, torch.ones(1, SIZE))), path)


def save_frozen(module, path):
    save_trace(module, path, torch.jit.freeze)


def save_safetensors(module, path):
    save_file(module.state_dict(), path)


def save_state(module, path):
    torch.save(module.state_dict(), path)


def addresses(path):
    """Return the ranges of addresses at which this process has mapped *path*."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(os.fspath(path))]
    return [range(int(start, 16), int(end, 16)) for start, end in ranges]


@pytest.mark.parametrize(
    ("save", "name"),
    [
        pytest.param(save_program, "m.pt2", id="torch.export"),
        pytest.param(save_trace, "m.pt", id="TorchScript"),
        pytest.param(save_frozen, "m.pt", id="frozen TorchScript"),
        pytest.param(save_safetensors, "m.safetensors", id="safetensors"),
        pytest.param(save_state, "m.pt", id="a state dict"),
    ],
)
def test_weights_are_mapped(product, load, tmp_path, save, name):
    path = tmp_path / name
    save(product, path)
    options = (
        {} if save in (save_program, save_trace, save_frozen) else {"class": "product:Product"}
    )
    service = load(SIGNATURE, **options)
    mapped = addresses(path)

    assert sum(map(len, mapped)) >= 3 * SIZE * SIZE * 4
    assert all(any(tensor.data_ptr() in each for each in mapped) for tensor in weights_of(service))
    with torch.inference_mode():
        expected = product(torch.from_numpy(X)).numpy()
    assert np.allclose(service.predict({"x": X}), expected, atol=1e-5)


def weights_of(service):
    """Return the three matrices, wherever the module keeps them."""
    module = service._runner._call
    found = [each for each in module.parameters() if each.ndim == 2]
    if not found:
        graph = module.inlined_graph
        nodes = graph.findAllNodes("prim::Constant")
        tensors = [node.t("value") for node in nodes if node.kindOf("value") == "t"]
        found = [each for each in tensors if each.ndim == 2]
    assert len(found) == 3
    return found
