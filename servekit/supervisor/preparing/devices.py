# SPDX-License-Identifier: Apache-2.0
"""The devices of replicas, as values of ``CUDA_VISIBLE_DEVICES``. Runs in: the prepare child."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from servekit.errors import StartupError

__all__ = ["VISIBLE", "device_values", "shared_out"]

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


def shared_out(values: Sequence[str], ranks: int) -> list[str]:
    """Return the value for each replica of *ranks* processes: as many devices as it has ranks.

    All ranks of a replica see all its devices, as ``torchrun`` does it: LOCAL_RANK says which one
    is whose.

    :param values: as ``device_values`` returns them.
    :raises StartupError: the replicas cannot share the devices equally.
    """
    if ranks == 1 or not any(values):
        return list(values)
    devices = ",".join(values).split(",")
    if len(devices) % ranks:
        count = "1 device" if len(devices) == 1 else f"{len(devices)} devices"
        raise StartupError(f"devices: {count} cannot be shared out to replicas of {ranks} ranks")
    return [",".join(devices[at : at + ranks]) for at in range(0, len(devices), ranks)]


def _is_device(text: str) -> bool:
    return text not in ("", "NoDevFiles") and not text.startswith("-")  # CUDA stops there, too


def _value(device: int | str, visible: list[str] | None) -> str:
    if isinstance(device, str) or visible is None:
        return str(device)
    if device >= len(visible):
        shown = ",".join(visible)
        raise StartupError(f"devices: {device} is not one of {VISIBLE}={shown}, counted from 0")
    return visible[device]
