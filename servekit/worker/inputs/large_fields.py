# SPDX-License-Identifier: Apache-2.0
"""Large JSON objects whose fields are annotated arrays: those are read where they stand."""

from collections.abc import Mapping
from typing import Any

import msgspec

from servekit.errors import BodyMalformed
from servekit.worker.codecs.json import decode_json, read_json
from servekit.worker.inputs.array_leaf import ArrayLeaf
from servekit.worker.inputs.json_arrays import is_large
from servekit.worker.inputs.leaves import leaf_of
from servekit.worker.inputs.type_tree import fields_of, without_none

__all__ = ["LargeFields"]

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class LargeFields:
    """Decodes objects of one type as ``decode_json`` does, with arrays in place of long lists."""

    def __init__(self, type_: Any) -> None:
        """Look for arrays among the fields of *type_*."""
        types = {name: without_none(each) for name, each in fields_of(without_none(type_)).items()}
        leaves = {name: leaf_of(each) for name, each in types.items()}
        self._arrays = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, ArrayLeaf)}

    def read(self, body: bytes) -> Mapping[str, Any] | None:
        """Return the fields of *body*; ``None``: try the long way, which says what is wrong."""
        if not self._arrays or not is_large(body):
            return None
        try:
            fields = read_json(_decode_fields, body)
            return {name: self._value(name, bytes(raw)) for name, raw in fields.items()}
        except (BodyMalformed, msgspec.ValidationError):
            return None

    def _value(self, name: str, text: bytes) -> Any:
        array = self._arrays[name].read_large(text) if name in self._arrays else None
        return decode_json(text) if array is None else array
