# SPDX-License-Identifier: Apache-2.0
"""Brings a module to its device, in its dtype and layout, and compiles it."""

from collections.abc import Callable
from typing import Any

import torch

from servekit.errors import BootError
from servekit_torch.opened import TorchModel
from servekit_torch.options import CompileOptions, TorchOptions
from servekit_torch.weights import one_line

__all__ = ["choose_device", "compile_module", "float_dtype", "place"]


def choose_device(name: str) -> Any:
    """Return the device called *name*; ``auto``: the first one that the deployment gives.

    :raises BootError: there is no such device.
    """
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise BootError(f"[options] device: {name!r} cannot be used ({one_line(error)})") from None
    return device


def place(opened: TorchModel, options: TorchOptions, device: Any) -> Any:
    """Return the module on *device*, in the dtype and the memory format of *options*.

    :raises BootError: the program is made for another dtype.
    """
    module = opened.module
    if options.dtype:
        if opened.casts is not None:
            raise BootError("[options] dtype: a .pt2 file has its dtypes; export it with another")
        module = module.to(getattr(torch, options.dtype))
    if options.channels_last:
        module = module.to(memory_format=torch.channels_last)
    return module if device.type == "cpu" else module.to(device)


def float_dtype(module: Any) -> Any:
    """Return the floating-point dtype of the weights of *module*; ``None`` if there are several."""
    found = {each.dtype for each in module.parameters() if each.is_floating_point()}
    return found.pop() if len(found) == 1 else None


def compile_module(
    opened: TorchModel, module: Any, options: TorchOptions, threads: int
) -> Callable[..., Any]:
    """Return *module*, compiled if *options* ask for it.

    With sizes there is a program for each; otherwise one for all.

    :raises BootError: TorchScript cannot be compiled.
    """
    if not options.compile:
        return module  # type: ignore[no-any-return]
    if opened.is_script:
        raise BootError("[options] compile: not for TorchScript; use torch.export")
    from torch._dynamo import config
    from torch._inductor import config as inductor

    config.recompile_limit = max(config.recompile_limit, len(options.sizes) + 1)
    inductor.compile_threads = threads
    how = options.compile if isinstance(options.compile, CompileOptions) else CompileOptions()
    try:
        compiled: Callable[..., Any] = torch.compile(
            module,
            dynamic=not options.sizes,
            mode=how.mode if how.backend == "inductor" else None,
            backend=how.backend,
            fullgraph=how.fullgraph,
        )
    except (RuntimeError, ValueError) as error:
        raise BootError(f"[options] compile: {one_line(error)}") from None
    return compiled
