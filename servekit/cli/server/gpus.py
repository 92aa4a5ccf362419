# SPDX-License-Identifier: Apache-2.0
"""The GPUs of this machine, as NVML reports them; none where ``nvidia-ml-py`` is not installed.

Read by the command line: a driver that hangs or crashes harms no server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["Gpu", "Gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU at one moment."""

    index: int  #: in the order of ``nvidia-smi``
    name: str
    used_bytes: int
    total_bytes: int
    busy_percent: int | None  #: share of the last moments in which it computed, if that is known
    pids: tuple[int, ...] = ()  #: processes that compute on it


class Gpus:
    """The GPUs of this machine, to be read again and again."""

    def __init__(self) -> None:
        """Open NVML, if there is one."""
        self._nvml: Any = None
        try:
            nvml: Any = import_module("pynvml")
        except ImportError:
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:  # no driver
            return
        self._nvml = nvml

    def read(self) -> list[Gpu]:
        """Return the state of each GPU that can be read."""
        if self._nvml is None:
            return []
        count = self._known(self._nvml.nvmlDeviceGetCount) or 0
        found = [self._known(self._gpu, index) for index in range(count)]
        return [gpu for gpu in found if gpu is not None]

    def _gpu(self, index: int) -> Gpu:
        nvml = self._nvml
        device = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
        name = nvml.nvmlDeviceGetName(device)
        rates = self._known(nvml.nvmlDeviceGetUtilizationRates, device)
        running = self._known(nvml.nvmlDeviceGetComputeRunningProcesses, device) or []
        return Gpu(
            index=index,
            name=name.decode() if isinstance(name, bytes) else name,  # older versions: bytes
            used_bytes=memory.used,
            total_bytes=memory.total,
            busy_percent=None if rates is None else rates.gpu,
            pids=tuple(process.pid for process in running),
        )

    def _known(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Return what *ask* returns; ``None`` if the device or driver does not report it."""
        try:
            return ask(*arguments)
        except self._nvml.NVMLError:
            return None
