# SPDX-License-Identifier: Apache-2.0
"""The devices of replicas, as values of ``CUDA_VISIBLE_DEVICES``. Runs in: the prepare child."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final

from servekit.errors import StartupError

__all__ = ["VISIBLE", "device_values"]

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
NODES: Final = "nvidia[0-9]*"  #: in /dev, one for each GPU


def device_values(
    devices: str | list[int | str] | None,
    environment: Mapping[str, str],
    nodes: Path = Path("/dev"),
) -> list[str]:
    """Return the value for each replica, to be repeated; none if the replicas see all devices.

    :param devices: as in ``[models.NAME]``. A number counts the devices that the server sees, as
        CUDA does: with CUDA_VISIBLE_DEVICES=2,3 in its environment, 0 is the device 2.
    :param nodes: the directory of the device files; tests use another one.
    :raises StartupError: there is no such device in CUDA_VISIBLE_DEVICES.
    """
    if devices is None:
        return []
    if devices == "cpu":
        return [""]
    allowed = environment.get(VISIBLE)
    visible = None if allowed is None else list(takewhile(_is_device, allowed.split(",")))
    if devices == "auto":
        count = sum(1 for _ in nodes.glob(NODES))
        return list(map(str, range(count))) if visible is None else visible
    return [_value(each, visible) for each in devices]


def _is_device(text: str) -> bool:
    return text not in ("", "NoDevFiles") and not text.startswith("-")  # CUDA stops there, too


def _value(device: int | str, visible: list[str] | None) -> str:
    if isinstance(device, str) or visible is None:
        return str(device)
    if device >= len(visible):
        shown = ",".join(visible)
        raise StartupError(f"devices: {device} is not one of {VISIBLE}={shown}, counted from 0")
    return visible[device]
