# SPDX-License-Identifier: Apache-2.0
"""TorchScript, traced or scripted."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from servekit.errors import BootError  # noqa: E402

pytestmark = pytest.mark.slow
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)

    def forward(self, x):
        return self.layer(x)


class Difference(torch.nn.Module):
    def forward(self, x, y):
        return x - y


@pytest.fixture
def save_script(tmp_path):
    """Return ``save_script(module, *example)``: traces with an example, scripts without one."""

    def save(module, *example):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated
            make = torch.jit.trace if example else torch.jit.script
            made = make(module.eval(), example) if example else make(module.eval())
            torch.jit.save(made, tmp_path / "model.pt")

    return save


def test_a_trace_tells_its_inputs(save_script, load):
    module = Linear()
    save_script(module, torch.ones(1, 2))
    service = load()

    assert service.signature["inputs"] == SIGNATURE["inputs"]
    assert service.signature["outputs"] == [{"name": "output", "dtype": "float32", "shape": [3]}]
    with torch.inference_mode():
        expected = module(torch.from_numpy(ROWS)).numpy()
    assert np.allclose(service.predict({"x": ROWS}), expected)


def test_a_scripted_module_needs_a_signature(save_script, load):
    save_script(Linear())

    with pytest.raises(BootError, match=r"declare its inputs in \[signature\]"):
        load()
    assert load(SIGNATURE).predict({"x": ROWS}).shape == (5, 3)


def test_several_inputs_go_by_name(save_script, load):
    save_script(Difference())
    inputs = [{"name": name, "dtype": "float32", "shape": [2]} for name in ("y", "x")]
    service = load({"inputs": inputs, "outputs": []})

    assert service.predict({"y": ROWS, "x": ROWS * 3}).tolist() == (ROWS * 2).tolist()


def test_names_that_forward_does_not_have_are_refused(save_script, load):
    save_script(Difference())
    inputs = [{"name": name, "dtype": "float32", "shape": [2]} for name in ("x", "z")]

    with pytest.raises(BootError, match=r"forward\(\) has no z; it takes x, y"):
        load({"inputs": inputs, "outputs": []})


def test_it_is_not_compiled(save_script, load):
    save_script(Linear(), torch.ones(1, 2))

    with pytest.raises(BootError, match=r"not for TorchScript; use torch\.export"):
        load(compile=True)


def test_a_broken_file_is_refused_in_one_line(save_script, load, tmp_path):
    save_script(Linear(), torch.ones(1, 2))
    path = tmp_path / "model.pt"
    body = path.read_bytes()
    refused: list[BootError] = []
    for place in range(100, len(body) - 1000, len(body) // 20):
        path.write_bytes(body[:place] + b"\x99" * 40 + body[place + 40 :])
        try:
            load()
        except BootError as error:
            refused.append(error)

    assert refused
    assert not any("\n" in str(error) for error in refused)
