# SPDX-License-Identifier: Apache-2.0
"""Checks of NVIDIA GPUs: the driver, NVML, and the devices that workers see."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Final

from servekit.cli.doctor.setup import Check, Setup
from servekit.extension.checks import Diagnosis

__all__ = ["GPU_CHECKS"]

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def gpus(setup: Setup) -> Iterator[Diagnosis]:
    """Compare the devices of the machine with what the driver reports and workers may see."""
    has_devices = any(setup.root.glob("dev/nvidia[0-9]*"))
    if not has_devices:
        if (setup.root / "proc/driver/nvidia/version").exists():
            yield Diagnosis(
                severity="warning",
                text="the NVIDIA driver is loaded, and there is no device in /dev",
                meaning="Models run on processors, or fail.",
                fix="docker run --gpus all, or nvidia-smi on the host",
            )
        return
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        yield Diagnosis(
            severity="info",
            text="there are GPUs, and the package nvidia-ml-py is not installed",
            meaning="servekit top does not show them.",
            fix="pip install nvidia-ml-py",
        )
        return
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        yield Diagnosis(
            severity="error",
            text=f"the driver does not answer: {error}",
            meaning="No model can use a GPU.",
            fix="nvidia-smi; after an upgrade of the driver, restart the machine",
        )
        return
    yield from _visible(setup, count)


def _visible(setup: Setup, count: int) -> Iterator[Diagnosis]:
    wanted = setup.environment.get(VISIBLE)
    if wanted is None:
        return
    if not wanted.strip() or wanted.strip() == "-1":
        yield Diagnosis(
            severity="info",
            text=f"{VISIBLE} hides all {count} GPUs",
            meaning="Models run on processors.",
            fix=f"unset {VISIBLE}",
        )
    for word in map(str.strip, wanted.split(",")):
        if word.isdecimal() and int(word) >= count:
            yield Diagnosis(
                severity="error",
                text=f"{VISIBLE} names device {word}, and there are {count}",
                meaning="Neither it nor the devices named after it are visible.",
                fix=f"export {VISIBLE}={','.join(map(str, range(count)))}",
            )


GPU_CHECKS: Final[Iterable[Check]] = (Check("gpus", "NVIDIA driver, NVML, visible devices", gpus),)
