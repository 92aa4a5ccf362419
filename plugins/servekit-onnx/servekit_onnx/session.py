# SPDX-License-Identifier: Apache-2.0
"""Opens onnxruntime sessions."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from servekit.errors import BootError
from servekit_onnx.options import OnnxOptions
from servekit_onnx.weights import sharing_settings

__all__ = ["open_session"]

REASON_CHARS = 300  #: characters of a message of onnxruntime
ENUMS = {
    "execution_mode": onnxruntime.ExecutionMode,
    "graph_optimization_level": onnxruntime.GraphOptimizationLevel,
}


def open_session(path: Path, options: OnnxOptions, *, threads: int, replicas: int) -> Any:
    """Return a session on the graph in *path* that computes with *threads* threads.

    :param replicas: how many sessions on the graph there will be on this machine.
    :raises BootError: a provider is not installed, a session option unknown, or the graph broken.
    """
    available = onnxruntime.get_available_providers()
    for provider in options.providers:
        name = provider if isinstance(provider, str) else provider[0]
        if name not in available:
            raise BootError(
                f"[options] providers: {name!r} is not one of {', '.join(sorted(available))}"
            )
    is_shared = replicas > 1 if options.share_weights is None else options.share_weights
    chosen = (sharing_settings(path) if is_shared else {}) | options.session
    settings = _session_options(chosen, threads)
    try:
        return onnxruntime.InferenceSession(path, settings, providers=options.providers)
    except Exception as error:  # noqa: BLE001 - onnxruntime has no base class
        reason = " ".join(str(error).split())[:REASON_CHARS]
        raise BootError(f"{path.name}: onnxruntime cannot open it ({reason})") from None


def _session_options(chosen: Mapping[str, bool | int | str], threads: int) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    # threads that spin between two batches take the cores of other workers
    is_alone = threads >= len(os.sched_getaffinity(0))
    settings.add_session_config_entry("session.intra_op.allow_spinning", str(int(is_alone)))
    for key, value in chosen.items():
        _set(settings, key, value)
    return settings


def _set(settings: Any, key: str, value: bool | int | str) -> None:
    """Set one option; enumerations are written as their names in lower case."""
    if "." in key:
        settings.add_session_config_entry(key, str(value))
        return
    known = [name for name in dir(settings) if not name.startswith(("_", "add_", "get_"))]
    if key not in known:
        raise BootError(f"[options] session: {key!r} is not one of {', '.join(known)}")
    try:
        setattr(settings, key, _member(ENUMS[key], str(value)) if key in ENUMS else value)
    except (KeyError, TypeError) as error:
        raise BootError(f"[options] session: {key}: {value!r} does not fit") from error


def _member(enumeration: Any, name: str) -> Any:
    members = enumeration.__members__
    found = {member.lower().removeprefix("ort_"): member for member in members}
    return members[found[name.lower()]]
