# SPDX-License-Identifier: Apache-2.0
"""The media types that a service takes and answers in, by its types and the codecs there are."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from servekit.service.base import Service
from servekit.worker.boot.kinds import (
    EVERY,
    NONE,
    RAW,
    TABLE,
    kinds_given,
    kinds_of_array,
    kinds_taken,
    may_meet,
    with_raw,
)
from servekit.worker.codecs.plain import OCTET_STREAM
from servekit.worker.codecs.table import CodecTable
from servekit.worker.inputs.form_rules import typed_rules
from servekit.worker.inputs.forms import FORM
from servekit.worker.inputs.media_leaf import MediaLeaf
from servekit.worker.inputs.type_tree import leaf_of, without_none
from servekit.worker.outputs.output_type import OutputType

__all__ = ["consumes", "produces"]

JSON: Final = "application/json"
MEDIA: Final = ("image/*", "audio/*", "video/*")
#: kinds that the body of a built-in media type is decoded into; the others may hold any kind
READS: Final[Mapping[str, Collection[str]]] = {
    "text/plain": {"text"},
    OCTET_STREAM: {"bytes"},
    **{range_: {"bytes"} for range_ in MEDIA},
    "application/x-npy": {"array"},
    FORM: {"object"},
}
#: kinds that a built-in media type can hold; the others hold nearly all
WRITES: Final[Mapping[str, Collection[str]]] = {
    OCTET_STREAM: {"bytes"},
    "text/plain": {"text"},
    "application/x-npy": {"array", "numbers"},
}


def consumes(
    service: Service, signature: Mapping[str, Any] | None, input_type: Any, table: CodecTable
) -> list[str]:
    """Return the media types of *table*, and forms, that can become an input of *service*."""
    every = [*table.media_types, FORM]
    if type(service).preprocess is not Service.preprocess:
        return every
    leaf = leaf_of(without_none(input_type))
    if signature is None and isinstance(leaf, MediaLeaf):
        structured = [name for name in every if name not in READS and table.is_builtin(name)]
        taken = [name for name in every if name in (*structured, FORM) or leaf.takes(name)]
        return [*taken, "*/*"] if leaf.takes("") else taken
    if signature is None:
        kinds = kinds_taken(input_type)
        is_of_files = typed_rules(input_type).alone is not None
    else:
        inputs, is_of_files = signature["inputs"], False
        kinds = {"object", TABLE, *(with_raw(inputs[0]) if len(inputs) == 1 else NONE)}
    return [
        name for name in every if _is_taken(name, kinds, table) or (name == FORM and is_of_files)
    ]


def _is_taken(name: str, kinds: Collection[str], table: CodecTable) -> bool:
    if name != FORM and not table.is_builtin(name):
        reads = table.reads(name)
        return reads is None or may_meet(reads, kinds, casts=True)
    if name == OCTET_STREAM and RAW in kinds:
        return True
    if name == JSON:
        return kinds != {"array"}  # NumPy's own class, which cannot be made of JSON
    return name not in READS or may_meet(READS[name], kinds)


def produces(
    service: Service, signature: Mapping[str, Any] | None, output: OutputType, table: CodecTable
) -> list[str]:
    """Return the media types of *table* that can hold the outputs of *service*, best first.

    A range stands for the media types that bytes are sent as if a client asks for one, or for
    those of files.
    """
    if output.media is not None:
        kinds: Collection[str] = NONE
    elif type(service).postprocess is not Service.postprocess:
        kinds = EVERY
    elif signature is not None:
        outputs = signature["outputs"]  # several are an object; none leave everything open
        kinds = kinds_of_array(outputs[0]) if len(outputs) == 1 else NONE if outputs else EVERY
        kinds = {*kinds, TABLE}
    else:
        kinds = kinds_given(output.type)

    def can_hold(name: str) -> bool:
        writes = WRITES.get(name) if table.is_builtin(name) else table.writes(name)
        return writes is None or may_meet(kinds, writes)

    own = output.media.media_types if output.media is not None else ()
    ranges = MEDIA if "bytes" in kinds else ()
    return [*dict.fromkeys([*own, *filter(can_hold, table.written), *ranges])]
