# SPDX-License-Identifier: Apache-2.0
"""Weights with a class: an ``nn.Module`` of Python code, and a file for its state dict."""

import inspect
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from servekit.errors import BootError
from servekit_torch.opened import TorchModel, arrange_by_name
from servekit_torch.weights import one_line, read_state

__all__ = ["open_module"]

#: functions that give parameters the values with which a training begins
FILLS = frozenset(
    ("constant_", "fill_", "kaiming_normal_", "kaiming_uniform_", "normal_", "uniform_", "zero_")
)


def open_module(path: Path, reference: str, arguments: Mapping[str, Any]) -> TorchModel:
    """Return the module of class *reference* with the weights in the file at *path*, mapped.

    :param reference: ``module:Class``; the class is called with *arguments*.
    :raises BootError: there is no such class, or the weights are not exactly those of the module.
    """
    module = _build(_find(reference), reference, arguments)
    state = _with_tied(module, read_state(path))
    try:
        module.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        raise BootError(f"{path.name}: does not fit {reference} ({one_line(error)})") from None
    parameters = list(inspect.signature(module.forward).parameters)
    return TorchModel(module=module.eval(), arrange=partial(arrange_by_name, parameters))


def _find(reference: str) -> Any:
    """Import the class; the directory of the model is on ``sys.path``."""
    module, _, name = reference.partition(":")
    if not module or not name:
        raise BootError(f"[options] class: {reference!r} is not module:Class")
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the archive is read-only
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise BootError(f"[options] class: there is no module {error.name!r}") from None
    finally:
        sys.dont_write_bytecode = before
    if not hasattr(imported, name):
        raise BootError(f"[options] class: {module} has no {name}")
    return getattr(imported, name)


def _build(make: Any, reference: str, arguments: Mapping[str, Any]) -> Any:
    with _Unfilled():
        module = make(**arguments)
    if not isinstance(module, torch.nn.Module):
        kind = type(module).__name__
        raise BootError(f"[options] class: {reference} gives a {kind}, expected an nn.Module")
    return module


class _Unfilled(TorchFunctionMode):  # type: ignore[misc]
    """Leaves parameters unfilled: the file has a value for each.

    Memory that is not written takes no room, and a large model is built at once.
    """

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        target = args[0] if args else kwargs.get("tensor")
        if isinstance(target, torch.nn.Parameter) and func.__name__ in FILLS:
            return target
        return func(*args, **kwargs)


def _with_tied(module: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return *state* with every name of parameters that *module* has under several names.

    Safetensors files hold such a parameter once.
    """
    names = defaultdict(list)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    for tied in names.values():
        if known := [name for name in tied if name in state]:
            state |= {name: state[known[0]] for name in tied if name not in state}
    return state
