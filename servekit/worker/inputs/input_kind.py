# SPDX-License-Identifier: Apache-2.0
"""What an input is: anything here, a type in ``annotations.py``, arrays in ``signature.py``."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from servekit.errors import InputError
from servekit.worker.codecs.json import decode_any_json

__all__ = ["AnyInput", "InputKind", "owned", "refusal", "singles"]


class InputKind(Protocol):
    """Decodes and checks single inputs, and makes batches of them."""

    def decode_json(self, body: bytes) -> Any:
        """Return the input of a JSON body, checked; the fast way for the common case."""

    def check(self, value: Any) -> Any:
        """Return the input made of a decoded value.

        :raises InputError: every wrong field at once.
        """

    def batches(self, inputs: Sequence[Any]) -> Iterable[tuple[Sequence[int] | None, Any]]:
        """Yield what ``predict`` is called with, and the positions of its members in *inputs*.

        ``None`` stands for all of them, in order.
        """


class AnyInput:
    """Takes every value; a batch is a list."""

    def __init__(self) -> None:
        """Decode without a detour."""
        self.decode_json = decode_any_json

    def check(self, value: Any) -> Any:
        """Return *value*; bytes that lie in shared memory become the service's own."""
        return owned(value)

    def batches(self, inputs: Sequence[Any]) -> Iterable[tuple[None, Any]]:
        """Yield one list."""
        return ((None, inputs),)


def owned(value: Any) -> Any:
    """Return *value*, or a copy of it if it is a view of a body that will be gone."""
    return bytes(value) if type(value) is memoryview else value


def singles(batch: Any) -> list[Any]:
    """Return the inputs of *batch* one by one; with a signature, mappings of name to array."""
    if isinstance(batch, dict):
        return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    return list(batch)


def refusal(errors: Sequence[tuple[str, str]]) -> InputError:
    """Return the error of one input from the (field, message) of all that is wrong with it."""
    detail = "; ".join(f"{field}: {message}" if field else message for field, message in errors)
    return InputError(detail, [{"field": field, "message": message} for field, message in errors])
