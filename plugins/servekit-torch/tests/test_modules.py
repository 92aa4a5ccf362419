# SPDX-License-Identifier: Apache-2.0
"""Weights with a class."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file, save_model  # noqa: E402

from servekit.errors import BootError  # noqa: E402

pytestmark = pytest.mark.slow
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)
SIGNATURE = {"inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": []}
NET = """
import torch


class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = torch.nn.Linear(2, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.second = torch.nn.Linear(width, 2)
        self.register_buffer("offset", torch.full((2,), 7.0), persistent=False)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x)))) + self.offset


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Linear(2, 2, bias=False)
        self.decode = torch.nn.Linear(2, 2, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(self.encode(x))


def number():
    return 5
"""


@pytest.fixture
def nets(write_code):
    """Write the module ``nets`` of the model and import it."""
    write_code("nets", NET)
    import nets

    return nets


def answer(module, rows=ROWS):
    with torch.inference_mode():
        return module.eval()(torch.from_numpy(rows)).numpy()


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt"])
def test_weights_are_loaded_into_their_class(nets, load, tmp_path, name):
    module = nets.Net(width=6)
    write = save_file if name.endswith("safetensors") else torch.save
    write(module.state_dict(), tmp_path / name)
    service = load(SIGNATURE, **{"class": "nets:Net", "arguments": {"width": 6}})

    assert np.allclose(service.predict({"x": ROWS}), answer(module))
    assert service.signature["outputs"] == [{"name": "output", "dtype": "float32", "shape": [2]}]


def test_a_parameter_of_two_names_is_in_the_file_once(nets, load, tmp_path):
    module = nets.Tied()
    save_model(module, str(tmp_path / "net.safetensors"))

    found = load(SIGNATURE, **{"class": "nets:Tied"}).predict({"x": ROWS})
    assert np.allclose(found, answer(module))


def test_half_precision_weights_take_float32_and_answer_it(nets, load, tmp_path):
    module = nets.Net()
    halved = {name: each.bfloat16() for name, each in module.state_dict().items()}
    halved["norm.num_batches_tracked"] = module.state_dict()["norm.num_batches_tracked"]
    save_file(halved, tmp_path / "net.safetensors")
    found = load(SIGNATURE, **{"class": "nets:Net"}).predict({"x": ROWS})

    assert found.dtype == np.float32
    assert np.allclose(found, answer(module), atol=0.2)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float16", "float16"), ("bfloat16", "float32"), ("float64", "float64")],
)
def test_weights_are_cast_to_the_dtype_of_the_options(nets, load, tmp_path, dtype, expected):
    module = nets.Net()
    save_file(module.state_dict(), tmp_path / "net.safetensors")
    service = load(SIGNATURE, **{"class": "nets:Net", "dtype": dtype})
    found = service.predict({"x": ROWS})

    assert found.dtype == expected
    assert np.allclose(found, answer(module), atol=0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({}, "name their nn.Module in [options] class", id="no class"),
        pytest.param({"class": "Net"}, "'Net' is not module:Class", id="no module"),
        pytest.param({"class": "absent:Net"}, "there is no module 'absent'", id="unknown module"),
        pytest.param({"class": "nets:Nut"}, "nets has no Nut", id="unknown class"),
        pytest.param({"class": "nets:number"}, "gives a int, expected", id="another object"),
        pytest.param({"class": "nets:Tied"}, "Missing key(s) in state_dict", id="another class"),
        pytest.param(
            {"class": "nets:Net", "arguments": {"width": 5}}, "size mismatch", id="another size"
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_in_one_line(nets, load, tmp_path, options, message):
    save_file(nets.Net().state_dict(), tmp_path / "net.safetensors")
    with pytest.raises(BootError) as refused:
        load(SIGNATURE, **options)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


class Harm:
    def __reduce__(self):
        return print, ("unpickled",)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"first.weight": Harm()}, "torch cannot read it", id="code"),
        pytest.param({"state_dict": {}, "epoch": 3}, "is not a state dict", id="a checkpoint"),
        pytest.param(torch.ones(2), "is not a state dict", id="a tensor"),
    ],
)
def test_a_pickle_holds_tensors_and_nothing_else(nets, load, tmp_path, capsys, value, message):
    torch.save(value, tmp_path / "net.pt")
    with pytest.raises(BootError, match=message):
        load(SIGNATURE, **{"class": "nets:Net"})

    assert "unpickled" not in capsys.readouterr().out


def test_a_pickle_that_torch_did_not_write_is_refused(nets, load, tmp_path):
    (tmp_path / "net.pt").write_bytes(pickle.dumps({"first.weight": Harm()}))

    with pytest.raises(BootError, match=r"net\.pt: torch cannot read it"):
        load(SIGNATURE, **{"class": "nets:Net"})
