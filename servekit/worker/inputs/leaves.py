# SPDX-License-Identifier: Apache-2.0
"""Types that msgspec knows nothing of, and how a decoded value becomes one.

An annotation is a tree: Structs, lists and mappings are its branches, which msgspec decodes.
An array, a pydantic model or a file is a *leaf*: it is made here, before msgspec sees it.
"""

import typing
from typing import Any, Protocol

from servekit.types.arrays import ARRAY

__all__ = ["Leaf", "NotOfType", "leaf_of"]


class NotOfType(ValueError):
    """A value is not what its leaf asks for: a path below it and a message, each."""

    def __init__(self, *mistakes: tuple[str, str]) -> None:
        """Keep at least one mistake."""
        super().__init__(mistakes[0][1])
        self.mistakes = mistakes


class Leaf(Protocol):
    """Makes values of one type."""

    def takes(self, media_type: str) -> bool:
        """Whether a body of *media_type*, which is no JSON nor alike, may be all of it."""

    def make(self, value: Any) -> Any:
        """Return the value made of a decoded one.

        :raises NotOfType: it cannot be one.
        """

    def from_json(self, body: bytes) -> Any:
        """Return the value made of a JSON text.

        :raises NotOfType: it cannot be one.
        :raises msgspec.DecodeError: it is no JSON.
        """


def leaf_of(type_: Any) -> Leaf | None:
    """Return what makes *type_*; ``None`` if msgspec does."""
    if typing.get_origin(type_) is typing.Annotated:
        for meta in type_.__metadata__:
            declared = (getattr(meta, "extra", None) or {}).get(ARRAY)
            if declared is not None:
                from servekit.worker.inputs.array_leaf import array_leaf  # imports numpy

                return array_leaf(declared)
    elif isinstance(type_, type):
        from servekit.worker.inputs.media_leaf import LEAVES  # what makes leaves knows what one is
        from servekit.worker.inputs.model_leaf import is_model, model_leaf

        return model_leaf(type_) if is_model(type_) else LEAVES.get(type_)
    return None
