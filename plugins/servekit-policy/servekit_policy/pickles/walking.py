# SPDX-License-Identifier: Apache-2.0
"""Reads the instructions of a pickle, and executes none."""

import pickletools
import re
from dataclasses import dataclass, field
from typing import IO, Final, cast

__all__ = ["UNKNOWN", "Walked", "walk"]

UNKNOWN: Final = "?"  #: an import whose name is computed, or comes from a registry
NAME: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
PROTOCOL: Final = b"\x80"
NEWEST: Final = 5
LONG_BYTES: Final = 1 << 20  #: a longer value is skipped: no name is that long
#: instructions that call what was imported, or give it a state
CALLS: Final = frozenset(("REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"))
REGISTRY: Final = frozenset(("EXT1", "EXT2", "EXT4"))
PUT: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
GET: Final = frozenset(("GET", "BINGET", "LONG_BINGET"))
#: instructions without an effect on the values
SILENT: Final = frozenset(("PROTO", "FRAME", "MEMOIZE", *PUT))


class _Skipped(bytes):
    """Stands for a long value that was not read into memory."""

    size = 0

    def __len__(self) -> int:
        return self.size


class _Instructions:
    """The stream, for ``pickletools``: long values are skipped."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.position = 0

    def read(self, size: int) -> bytes:
        if size <= LONG_BYTES:
            return self._seen(self._stream.read(size))
        skipped, left = _Skipped(), size
        while left and (piece := self._stream.read(min(left, LONG_BYTES))):
            left -= len(piece)
        skipped.size = size - left
        self.position += skipped.size
        return skipped

    def readline(self) -> bytes:
        return self._seen(self._stream.readline(LONG_BYTES))

    def tell(self) -> int:
        return self.position

    def _seen(self, content: bytes) -> bytes:
        self.position += len(content)
        return content


@dataclass(slots=True)
class Walked:
    """The instructions of one stream, as far as they could be read."""

    imports: list[str] = field(default_factory=list)  #: ``os.system``, in their order
    count: int = 0  #: of instructions
    calls: int = 0
    has_protocol: bool = False  #: it begins as pickles do since Python 2.3
    is_whole: bool = False  #: its last instruction was reached

    @property
    def is_pickle(self) -> bool:
        """Whether this is a pickle, and not another file that begins alike."""
        if self.has_protocol:
            return self.is_whole or bool(self.imports) or self.count > 2
        is_used = self.is_whole or self.calls > 0
        return is_used and any(NAME.fullmatch(name) for name in self.imports)


class _Stack:
    """How many values there are; text that is read as a pickle soon lacks one."""

    def __init__(self) -> None:
        self._depth = 0
        self._marks: list[int] = []

    def follow(self, instruction: pickletools.OpcodeInfo) -> None:
        """Take and push what *instruction* does; a ``ValueError`` where values are missing."""
        taken = instruction.stack_before
        if instruction.name == "MARK":
            self._marks.append(self._depth)
            return
        if instruction.name == "POP" and self._marks and self._marks[-1] == self._depth:
            self._marks.pop()
            return
        if pickletools.markobject in taken:
            if not self._marks:
                raise ValueError("no mark")
            self._depth = self._marks.pop()
            taken = taken[: taken.index(pickletools.markobject)]
        self._depth -= len(taken)
        if self._depth < 0:
            raise ValueError("no value")
        self._depth += len(instruction.stack_after)


class _Values:
    """The two newest strings, and those in the memo: an import takes its names from them."""

    def __init__(self) -> None:
        self._newest: list[str | None] = [None, None]
        self._memo: dict[int, str | None] = {}

    def note(self, instruction: str, argument: object) -> None:
        """Follow one instruction."""
        if instruction == "MEMOIZE":
            self._memo[len(self._memo)] = self._newest[-1]
        elif instruction in PUT:
            self._memo[int(str(argument))] = self._newest[-1]
        elif instruction in GET:
            self._push(self._memo.get(int(str(argument))))
        elif instruction not in SILENT:
            is_text = "UNICODE" in instruction or "STRING" in instruction
            self._push(argument if is_text and isinstance(argument, str) else None)

    def name(self) -> str:
        """Return what STACK_GLOBAL imports now."""
        module, name = self._newest
        return f"{module}.{name}" if module and name else UNKNOWN

    def _push(self, value: str | None) -> None:
        self._newest = [self._newest[1], value]


def walk(stream: IO[bytes]) -> Walked:
    """Read *stream* to the end of its first pickle, or to bytes that are not an instruction.

    Nothing is imported or called. A pickle acts while it is loaded, instruction by instruction,
    so one that breaks off counts as far as it can be read.
    """
    walked, values, stack = Walked(), _Values(), _Stack()
    try:
        for instruction, argument, _ in pickletools.genops(
            cast("IO[bytes]", _Instructions(stream))
        ):
            stack.follow(instruction)
            _note(walked, values, instruction.name, argument)
        walked.is_whole = True
    except Exception:  # noqa: BLE001 - hostile bytes; whatever they do, they are not whole
        walked.is_whole = False
    return walked


def _note(walked: Walked, values: _Values, instruction: str, argument: object) -> None:
    walked.count += 1
    if instruction == "PROTO":
        if walked.count == 1 and int(str(argument)) > NEWEST:
            raise ValueError("not a protocol of pickle")
        walked.has_protocol |= walked.count == 1
    elif instruction in ("GLOBAL", "INST"):
        walked.imports.append(str(argument).replace(" ", ".", 1))
    elif instruction == "STACK_GLOBAL":
        walked.imports.append(values.name())
    elif instruction in REGISTRY:
        walked.imports.append(UNKNOWN)
    walked.calls += instruction in CALLS
    values.note(instruction, argument)
