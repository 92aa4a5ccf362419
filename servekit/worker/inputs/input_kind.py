# SPDX-License-Identifier: Apache-2.0
"""Kinds of inputs: any value here, a type in ``typed_input``, arrays in ``signed_input``."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from servekit.errors import InputError
from servekit.worker.codecs.json import decode_any_json

__all__ = ["AnyInput", "InputKind", "owned", "refusal", "singles", "with_whole_numbers"]

LARGEST_EXACT = 2.0**53  #: a larger double may stand for another integer than was written


#: yields the arguments for ``predict``, each with the positions of its members among the inputs;
#: ``None`` stands for all of them, in order
Batches = Callable[[Sequence[Any]], Iterable[tuple[Sequence[int] | None, Any]]]


class InputKind(Protocol):
    """Decodes and checks single inputs, and makes batches of them."""

    @property
    def batches(self) -> Batches | None:
        """Makes the arguments for ``predict``; ``None``: the only one is the list of the inputs."""

    def decode_json(self, body: bytes) -> Any:
        """Return the checked input of a JSON body.

        :raises InputError: with every wrong field.
        """

    def check(self, value: Any) -> Any:
        """Return the input made of a decoded value.

        :raises InputError: with every wrong field.
        """


class AnyInput:
    """Takes every value; a batch is a list."""

    batches = None

    def __init__(self) -> None:
        self.decode_json = decode_any_json

    def check(self, value: Any) -> Any:
        """Return *value*; bytes in shared memory are copied."""
        return owned(value)


def owned(value: Any) -> Any:
    """Return *value*, or a copy if it is a view of a body in shared memory."""
    return bytes(value) if type(value) is memoryview else value


def with_whole_numbers(value: Any) -> Any:
    """Return a copy of a decoded *value* with integers in place of floats such as ``1.0``.

    JSON Schema counts ``1.0`` as an integer.
    """
    if isinstance(value, float):
        is_exact = -LARGEST_EXACT <= value <= LARGEST_EXACT and value.is_integer()
        return int(value) if is_exact else value
    if isinstance(value, list):
        return [with_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: with_whole_numbers(each) for key, each in value.items()}
    return value


def singles(batch: Any) -> list[Any]:
    """Return the inputs of *batch* one by one; with a signature, mappings of name to array."""
    if isinstance(batch, dict):
        return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    return list(batch)


def refusal(errors: Sequence[tuple[str, str]]) -> InputError:
    """Return the error of one input from the (field, message) pairs of its mistakes."""
    detail = "; ".join(f"{field}: {message}" if field else message for field, message in errors)
    return InputError(detail, [{"field": field, "message": message} for field, message in errors])
