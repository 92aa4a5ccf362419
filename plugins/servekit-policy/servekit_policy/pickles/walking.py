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
CHECKED: Final = 64  #: instructions after which a file with a protocol is taken for a pickle
#: instructions that call what was imported, or give it a state
CALLS: Final = frozenset(("REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"))
REGISTRY: Final = frozenset(("EXT1", "EXT2", "EXT4"))
PUT: Final = frozenset(("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"))
GET: Final = frozenset(("GET", "BINGET", "LONG_BINGET"))
TEXTS: Final = frozenset(
    op.name for op in pickletools.opcodes if "UNICODE" in op.name or "STRING" in op.name
)
NOTED: Final = frozenset(("PROTO", "FRAME", "GLOBAL", "STACK_GLOBAL", *CALLS, *REGISTRY))


class _Skipped(bytes):
    """Stands for a long value that was not read into memory."""

    size = 0

    def __len__(self) -> int:
        return self.size


class _Instructions:
    """The stream, for ``pickletools``: long values are skipped."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        if size <= LONG_BYTES:
            return self._stream.read(size)
        skipped, left = _Skipped(), size
        while left and (piece := self._stream.read(min(left, LONG_BYTES))):
            left -= len(piece)
        skipped.size = size - left
        return skipped

    def readline(self) -> bytes:
        return self._stream.readline(LONG_BYTES)

    def tell(self) -> int:
        return 0  # nobody needs the positions


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


class _Names:
    """The two newest values, where they are strings: an import takes its names from them."""

    def __init__(self) -> None:
        self.module: str | None = None
        self.name: str | None = None  #: the newest value
        self._memo: dict[int, str] = {}
        self._memoized = 0

    def push(self, value: str | None) -> None:
        """Note a value; ``None`` is one that is not a string."""
        self.module, self.name = self.name, value

    def memoize(self, instruction: str, argument: object) -> None:
        """Note that the newest value gets a number."""
        number = self._memoized if instruction == "MEMOIZE" else int(str(argument))
        self._memoized += 1
        if self.name is not None:
            self._memo[number] = self.name
        else:
            self._memo.pop(number, None)

    def recall(self, argument: object) -> None:
        """Push the value with a number."""
        self.push(self._memo.get(int(str(argument))))

    def imported(self) -> str:
        """Return what STACK_GLOBAL imports now."""
        return f"{self.module}.{self.name}" if self.module and self.name else UNKNOWN


def walk(stream: IO[bytes]) -> Walked:
    """Read *stream* to the end of its first pickle, or to bytes that are not an instruction.

    Nothing is imported or called. A pickle acts while it is loaded, instruction by instruction,
    so one that breaks off counts as far as it can be read.
    """
    walked, names, stack = Walked(), _Names(), _Stack()
    try:
        # a pickle can have millions of instructions, so the frequent ones come first
        for instruction, argument, _ in pickletools.genops(
            cast("IO[bytes]", _Instructions(stream))
        ):
            walked.count += 1
            kind = instruction.name
            if walked.count <= CHECKED or not walked.has_protocol:
                stack.follow(instruction)
            if kind in TEXTS:
                names.push(argument if isinstance(argument, str) else None)
            elif kind in PUT:
                names.memoize(kind, argument)
            elif kind in GET:
                names.recall(argument)
            elif kind not in NOTED:
                names.push(None)
            else:
                _note(walked, names, kind, argument)
        walked.is_whole = True
    except Exception:  # noqa: BLE001 - hostile bytes; whatever they do, they are not whole
        walked.is_whole = False
    return walked


def _note(walked: Walked, names: _Names, instruction: str, argument: object) -> None:
    if instruction == "PROTO":
        if walked.count == 1 and int(str(argument)) > NEWEST:
            raise ValueError("not a protocol of pickle")
        walked.has_protocol |= walked.count == 1
        return
    if instruction == "FRAME":
        return
    if instruction in ("GLOBAL", "INST"):
        walked.imports.append(str(argument).replace(" ", ".", 1))
    elif instruction == "STACK_GLOBAL":
        walked.imports.append(names.imported())
    elif instruction in REGISTRY:
        walked.imports.append(UNKNOWN)
    walked.calls += instruction in CALLS
    names.push(None)
