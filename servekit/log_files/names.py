# SPDX-License-Identifier: Apache-2.0
"""The names of the files of a log directory.

``server.jsonl`` and ``model-digits.jsonl`` are written to; ``model-digits.jsonl.1`` is the newest
of those that are complete. No model can have the file of another one.
"""

from typing import Final

__all__ = ["SUFFIX", "file_name", "model_of"]

SUFFIX: Final = ".jsonl"
SERVER_FILE: Final = f"server{SUFFIX}"
MODEL_PREFIX: Final = "model-"


def file_name(model: str) -> str:
    """Return the name of the file of *model*; "" is the server."""
    return f"{MODEL_PREFIX}{model}{SUFFIX}" if model else SERVER_FILE


def model_of(name: str) -> str | None:
    """Return the model of the file *name*, "" for the server; ``None`` for another file."""
    if name == SERVER_FILE:
        return ""
    if name.startswith(MODEL_PREFIX) and name.endswith(SUFFIX):
        return name[len(MODEL_PREFIX) : -len(SUFFIX)]
    return None
