# SPDX-License-Identifier: Apache-2.0
"""Reads what transformers has saved, without importing it: the task, and what is refused.

Runs in: the process that asks what a directory is, and worker.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from servekit.errors import BootError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["check_weights", "describe_checkpoint", "read_json"]

WEIGHTS: Final = ("model.safetensors", "model.safetensors.index.json")
PICKLES: Final = ("pytorch_model.bin", "pytorch_model.bin.index.json")
MAX_JSON: Final = 1 << 24  #: bytes of a file that describes a model
SEQUENCES: Final = 16  #: generated at once, if ``model.toml`` does not say

#: the end of the name of an architecture, and the service for it; the first that fits
SERVICES: Final = (
    ("ForSequenceClassification", "huggingface-text-classification"),
    ("ForTokenClassification", "huggingface-token-classification"),
    ("ForImageClassification", "huggingface-image-classification"),
    ("ForCausalLM", "huggingface-completion"),
    ("LMHeadModel", "huggingface-completion"),
    ("Model", "huggingface-embedding"),
)

UNKNOWN = (
    "config.json: architectures: {name} is not a kind of model that is served without code; "
    "name a service in model.toml (known kinds: {kinds})"
)
PICKLED = (
    "{file}: weights in pickle can run code when they are read; write safetensors once, in Python: "
    "AutoModelFor...from_pretrained(DIRECTORY).save_pretrained(DIRECTORY), and remove the file. "
    "If you trust it, set [options] allow_pickle = true"
)


def describe_checkpoint(directory: Path) -> dict[str, Any] | None:
    """Return the keys of a manifest for the model in *directory*; ``None`` if it has no weights.

    :raises BootError: transformers has saved it, and no service is for its architecture.
    """
    config = read_json(directory / "config.json") or {}
    has_weights = any((directory / name).is_file() for name in (*WEIGHTS, *PICKLES))
    if not has_weights or not config.get("architectures"):
        return None
    service = _service_of(directory, str(config["architectures"][0]))
    if not service.endswith(("-chat", "-completion")):
        return {"service": service}
    return {"service": service, "batching": {"max_batch_size": SEQUENCES}}


def _service_of(directory: Path, architecture: str) -> str:
    if (directory / "modules.json").is_file():  # written by sentence-transformers
        return "huggingface-embedding"
    found = next((name for end, name in SERVICES if architecture.endswith(end)), None)
    if found is None:
        kinds = ", ".join(f"...{end}" for end, _ in SERVICES)
        raise BootError(UNKNOWN.format(name=architecture, kinds=kinds))
    has_template = found == "huggingface-completion" and _has_chat_template(directory)
    return "huggingface-chat" if has_template else found


def _has_chat_template(directory: Path) -> bool:
    if (directory / "chat_template.jinja").is_file():
        return True
    return bool((read_json(directory / "tokenizer_config.json") or {}).get("chat_template"))


def check_weights(directory: Path, *, allow_pickle: bool) -> bool:
    """Return whether the weights in *directory* are safetensors.

    :raises BootError: there are none, or they are pickled and *allow_pickle* is false.
    """
    if any((directory / name).is_file() for name in WEIGHTS):
        return True
    pickled = next((name for name in PICKLES if (directory / name).is_file()), None)
    if pickled is None:
        raise BootError(f"no weights: there is no {WEIGHTS[0]} and no {WEIGHTS[1]}")
    if not allow_pickle:
        raise BootError(PICKLED.format(file=pickled))
    return False


def read_json(path: Path) -> Mapping[str, Any] | None:
    """Return the object in the JSON file at *path*; ``None`` if there is no such file.

    :raises BootError: it is not an object, or too large.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_JSON:
        raise BootError(f"{path.name}: is larger than {MAX_JSON} bytes")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BootError(f"{path.name}: is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise BootError(f"{path.name}: expected an object")
    return found
