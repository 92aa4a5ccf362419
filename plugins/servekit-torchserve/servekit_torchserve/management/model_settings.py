# SPDX-License-Identifier: Apache-2.0
"""The settings of a model: those of a registration, and those that stay when it is scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit_torchserve.management.description import RUN_TIME

if TYPE_CHECKING:
    from servekit_torchserve.management.description import ServedVersionState
    from servekit_torchserve.management.parameters import Parameters

__all__ = ["kept_settings", "settings_of"]

#: registration parameter to the key of ``[models.NAME]`` that it becomes
BATCHING: Final = {"batch_size": "max_batch_size", "max_batch_delay": "max_delay_ms"}


def settings_of(parameters: Parameters, workers: int) -> dict[str, Any]:
    """Return what *parameters* say of a model, as ``[models.NAME]``."""
    found: dict[str, Any] = {"replicas": workers}
    given = {key: parameters.number(name) for name, key in BATCHING.items()}
    batching = {key: value for key, value in given.items() if value is not None and value >= 0}
    if batching.get("max_batch_size") == 0:
        del batching["max_batch_size"]
    if batching:
        found["batching"] = batching
    if handler := parameters.text("handler"):
        found["options"] = {"handler": handler}
    return found


def kept_settings(version: ServedVersionState) -> dict[str, Any]:
    """Return the settings that an operator has given, other than the number of workers."""
    kept: dict[str, Any] = {}
    for each in version.settings:
        table, _, key = each.name.partition(".")
        if each.source == RUN_TIME and table in ("batching", "options"):
            kept.setdefault(table, {})[key] = each.value
    return kept
