# SPDX-License-Identifier: Apache-2.0
"""A directory as KServe has it for TorchServe: with ``config/`` and ``model-store/``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit.errors import BootError
from servekit_torchserve.command.keys import OPTIONS
from servekit_torchserve.command.properties import read_properties
from servekit_torchserve.model_config import FrontEndKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["describe_store"]

STORE: Final = "model-store"
CONFIG: Final = "config/config.properties"
SWITCH: Final = ("true", "false")


class StoredArchive(FrontEndKeys, rename="camel"):
    """One version of a model in ``model_snapshot``."""

    mar_name: str = ""
    default_version: bool = False


class Snapshot(msgspec.Struct):
    """The property ``model_snapshot``: model to version to archive."""

    models: dict[str, dict[str, StoredArchive]] = {}


def describe_store(directory: Path) -> dict[str, Any] | None:
    """Return the archive of the model in *directory*, and what its configuration says of it.

    A directory without an archive gives ``None``.

    :raises BootError: there are several models, or the configuration is not valid.
    """
    names = sorted(path.name for path in (directory / STORE).glob("*.mar"))
    if not names:
        return None
    properties = read_properties(directory / CONFIG, os.environ)
    stored, options = _stored(properties), _options(properties)
    if len(stored) > 1 or (not stored and len(names) > 1):
        models = ", ".join(stored or names)
        text = f"has several models ({models}); serve their archives, or use servekit torchserve"
        raise BootError(f"{STORE}: {text}")
    if not stored:
        return {"archive": f"{STORE}/{names[0]}", **options}
    (found,) = stored.values()
    if found.mar_name not in names:
        raise BootError(f"{CONFIG}: model_snapshot: {found.mar_name!r} is not in {STORE}")
    return {"archive": f"{STORE}/{found.mar_name}", **options, **dict(_keys(found))}


def _options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the table ``[options]``, such as the envelope that clients of KServe need."""
    given = {OPTIONS[key]: value.lower() for key, value in properties.items() if key in OPTIONS}
    table = {name: text == "true" if text in SWITCH else text for name, text in given.items()}
    return {"options": table} if table else {}


def _stored(properties: Mapping[str, str]) -> dict[str, StoredArchive]:
    """Return the default version of each model in the configuration."""
    text = properties.get("model_snapshot") or "{}"
    try:
        models = msgspec.json.decode(text, type=Snapshot, strict=False).models
    except msgspec.MsgspecError as error:
        raise BootError(f"{CONFIG}: model_snapshot: {error}") from None
    return {
        name: next((each for each in versions.values() if each.default_version), last)
        for name, versions in models.items()
        if (last := next(reversed(versions.values()), None)) is not None
    }


def _keys(found: StoredArchive) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of ``model.toml`` for what *found* gives; the rest is for the archive."""
    batching = {
        "max_batch_size": found.batch_size and max(1, found.batch_size),
        "max_delay_ms": found.max_batch_delay,
    }
    worker = {
        "replicas": found.min_workers and max(1, found.min_workers),
        "predict_timeout_s": found.response_timeout,
        "load_timeout_s": found.startup_timeout,
    }
    for name, table in (("batching", batching), ("worker", worker)):
        given = {key: value for key, value in table.items() if value}
        if given:
            yield name, given
