# SPDX-License-Identifier: Apache-2.0
"""GPUs as NVML reports them; the module is a fake, which can fail as drivers do."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from servekit.cli.commands.top import _table
from servekit.cli.server.gpus import Gpu, Gpus
from servekit.cli.server.rates import Observation, rates


class FakeError(Exception):
    """As ``pynvml.NVMLError``."""


def refuse(*_arguments):
    raise FakeError("Not Supported")


@pytest.fixture
def nvml(monkeypatch):
    """Install a module with two GPUs; worker 4711 computes on the second."""
    module = ModuleType("pynvml")
    module.NVMLError = FakeError
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetCount = lambda: 2
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda device: ["NVIDIA L4", b"Tesla T4"][device]
    module.nvmlDeviceGetMemoryInfo = lambda device: SimpleNamespace(
        used=device << 30, total=1 << 34
    )
    module.nvmlDeviceGetUtilizationRates = lambda device: SimpleNamespace(gpu=40 * device)
    running = [[], [SimpleNamespace(pid=4711)]]
    module.nvmlDeviceGetComputeRunningProcesses = lambda device: running[device]
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_each_gpu_is_read(nvml):
    first, second = Gpus().read()

    assert first == Gpu(
        index=0, name="NVIDIA L4", used_bytes=0, total_bytes=1 << 34, busy_percent=0
    )
    assert (second.name, second.used_bytes, second.busy_percent) == ("Tesla T4", 1 << 30, 40)
    assert second.pids == (4711,)


def test_without_the_package_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # imports of it fail

    assert Gpus().read() == []


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_a_driver_there_are_none(nvml, name):
    setattr(nvml, name, refuse)

    assert Gpus().read() == []


def test_a_gpu_that_is_lost_hides_no_other(nvml):
    def memory(device):
        return refuse() if device == 0 else SimpleNamespace(used=0, total=1)

    nvml.nvmlDeviceGetMemoryInfo = memory

    assert [gpu.index for gpu in Gpus().read()] == [1]


def test_what_a_gpu_does_not_report_is_left_out(nvml):
    nvml.nvmlDeviceGetUtilizationRates = refuse
    nvml.nvmlDeviceGetComputeRunningProcesses = refuse
    first, _ = Gpus().read()

    assert (first.busy_percent, first.pids) == (None, ())


def look(time, gpus):
    replica = {"pid": 4711, "cpu_s": 0.0, "memory_bytes": 0, "state": "serving"}
    model = {"name": "m", "version": "1", "replicas": [replica], "versions": []}
    return Observation(time, [model], {}, gpus)


def test_top_shows_which_models_compute_on_which_gpu(nvml):
    gpus = Gpus().read()
    found = rates(look(0.0, ()), look(1.0, gpus))
    shown = _table(found, gpus).splitlines()

    assert found[0].gpus == [1]
    assert [line.split()[0] for line in shown[-2:]] == ["0", "1"]
    assert shown[-1].split()[1:3] == ["Tesla", "T4"]
    assert shown[-1].split()[-3:] == ["40", "%", "m/1"]
    assert "GPU" not in _table(found, [])
