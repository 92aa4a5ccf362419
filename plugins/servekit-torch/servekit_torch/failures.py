# SPDX-License-Identifier: Apache-2.0
"""Errors of PyTorch: about an input, or about the machine."""

from typing import Final

import torch

from servekit_torch.weights import one_line

__all__ = ["REFUSALS", "raise_unless_refusal"]

#: raised by operators, and by the guards of programs, about values and shapes
REFUSALS: Final = (AssertionError, IndexError, RuntimeError, ValueError)
MISTAKES: Final = (NotImplementedError, RecursionError)  #: RuntimeErrors of the code, not the input
NO_MEMORY: Final = ("can't allocate memory", "not enough memory")  #: said of the CPU's


def raise_unless_refusal(error: Exception) -> None:
    """Return if *error* may be about an input.

    :raises MemoryError: there was not enough, on the CPU or on a device.
    :raises SystemExit: the device has failed, and works again only in a new process.
    """
    if isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in NO_MEMORY):
        raise MemoryError(one_line(error)) from error
    if isinstance(error, torch.AcceleratorError):
        raise SystemExit(f"the device has failed: {one_line(error)}") from error
    if isinstance(error, MISTAKES):
        raise error
