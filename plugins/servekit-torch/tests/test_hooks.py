# SPDX-License-Identifier: Apache-2.0
"""The hook module: light to import, and exact about what it claims."""

import subprocess
import sys
import zipfile

import pytest
from servekit_torch import hooks

SCRIPT = ["m/data.pkl", "m/code/__torch__/net.py", "m/constants.pkl"]
PROGRAM = ["m/models/model.json", "m/archive_format", "m/byteorder"]
STATE = ["m/data.pkl", "m/data/0", "m/version"]


def test_importing_the_hook_module_imports_nothing_heavy():
    code = "import servekit_torch.hooks, sys; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    assert not {"numpy", "torch", "zipfile"} & set(loaded)


@pytest.mark.parametrize(
    ("version", "devices", "count"),
    [
        pytest.param("2.9.1+cpu", ["nvidia0"], 1, id="a build without CUDA, and a GPU"),
        pytest.param("2.9.1+cpu", ["nvidiactl"], 0, id="no GPU"),
        pytest.param("2.9.1", ["nvidia0"], 0, id="a build with CUDA"),
    ],
)
def test_a_build_that_cannot_use_the_gpus_is_found(monkeypatch, tmp_path, version, devices, count):
    for name in devices:
        (tmp_path / name).touch()
    monkeypatch.setattr(hooks, "DEVICES", tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)

    assert len(hooks.check_setup(None)) == count


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({"a.pt2": None}, {"service": "torch"}, id="a program is claimed"),
        pytest.param({"a.pt": SCRIPT}, {"service": "torch"}, id="TorchScript is claimed"),
        pytest.param({"a.pth": SCRIPT}, {"service": "torch"}, id="as .pth too"),
        pytest.param({"a.pt": PROGRAM}, {"service": "torch"}, id="a program called .pt"),
        pytest.param({"a.pt": STATE}, None, id="a state dict needs a class"),
        pytest.param({"a.pt": None}, None, id="what is not a zip file is left alone"),
        pytest.param({"a.safetensors": None}, None, id="and so do safetensors"),
        pytest.param({"a.pt2": None, "b.pt2": None}, None, id="two are ambiguous"),
        pytest.param({"a.pt2": None, "labels.txt": None}, {"service": "torch"}, id="beside others"),
        pytest.param({"a.onnx": None}, None, id="another format is left alone"),
        pytest.param({}, None, id="an empty directory is left alone"),
    ],
)
def test_recognise_model(tmp_path, files, expected):
    for name, entries in files.items():
        if entries is None:
            (tmp_path / name).touch()
            continue
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for entry in entries:
                archive.writestr(entry, "")

    assert hooks.recognise_model(tmp_path) == expected
