# SPDX-License-Identifier: Apache-2.0
"""The files of sentence-transformers: how the tokens of an input become one vector."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from servekit_archiver import file_in

from servekit.errors import BootError
from servekit_huggingface.checkpoint import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servekit_huggingface.options import EmbeddingOptions

__all__ = ["SentenceSettings", "read_sentence_settings"]

MODULES: Final = "modules.json"
#: the modules that are understood; the last part of their type
KNOWN: Final = ("Transformer", "Pooling", "Normalize")
POOLINGS: Final[Mapping[str, str]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}


class SentenceSettings(NamedTuple):
    """How an input becomes a vector."""

    pooling: str  #: ``mean``, ``cls`` or ``last``
    normalize: bool
    max_tokens: int | None
    prefix: str  #: written before each input


def read_sentence_settings(directory: Path, options: EmbeddingOptions) -> SentenceSettings:
    """Return what *options* say, and otherwise the files in *directory*.

    :raises BootError: the vectors are made in a way that is not supported.
    """
    if not (directory / MODULES).is_file():
        pooling, normalize = "mean", True
        limit, prefix = None, ""
    else:
        modules = _modules(directory / MODULES)
        kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
        if unknown := [kind for kind in kinds if kind not in KNOWN]:
            raise BootError(f"{MODULES}: {unknown[0]} is not supported (known: {', '.join(KNOWN)})")
        paths = dict(zip(kinds, (str(module.get("path", "")) for module in modules), strict=True))
        pooling = _pooling(directory, paths["Pooling"]) if "Pooling" in paths else "mean"
        normalize, limit, prefix = "Normalize" in kinds, _limit(directory), _prefix(directory)
    return SentenceSettings(
        pooling=options.pooling or pooling,
        normalize=normalize if options.normalize is None else options.normalize,
        max_tokens=options.max_tokens or limit,
        prefix=prefix,
    )


def _modules(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BootError(f"{path.name}: is not JSON ({error})") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BootError(f"{path.name}: expected a list of objects")
    return found


def _pooling(directory: Path, folder: str) -> str:
    name = f"{folder}/config.json" if folder else "config.json"
    path = file_in(directory, name, f"{MODULES}: path")
    config = read_json(path) or {}
    if isinstance(config.get("pooling_mode"), str):  # newer versions write one name
        return _known(str(config["pooling_mode"]), POOLINGS.values())
    modes = [name for name, value in config.items() if name.startswith("pooling_mode_") and value]
    if len(modes) != 1:
        raise BootError(f"{folder}/config.json: {len(modes)} kinds of pooling, expected 1")
    return POOLINGS[_known(modes[0], POOLINGS)]


def _known(name: str, names: Any) -> str:
    name = {"lasttoken": "last"}.get(name, name)
    if name not in names:
        raise BootError(f"pooling: {name} is not supported (known: {', '.join(names)})")
    return name


def _limit(directory: Path) -> int | None:
    limit = (read_json(directory / "sentence_bert_config.json") or {}).get("max_seq_length")
    return limit if isinstance(limit, int) else None


def _prefix(directory: Path) -> str:
    """Return the prompt that sentence-transformers writes before each input by default."""
    config = read_json(directory / "config_sentence_transformers.json") or {}
    name = config.get("default_prompt_name")
    return str((config.get("prompts") or {}).get(name, "")) if name else ""
