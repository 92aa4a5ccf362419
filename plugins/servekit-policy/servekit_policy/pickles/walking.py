# SPDX-License-Identifier: Apache-2.0
"""Reads the instructions of a pickle, and executes none."""

import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Final

__all__ = ["UNKNOWN", "Walked", "walk"]

UNKNOWN: Final = "?"  #: an import whose name is computed, or comes from a registry
NAME: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
PROTOCOL: Final = b"\x80"
NEWEST: Final = 5
#: width of the length before a value, and whether it has a sign
SIZES: Final = {
    pickletools.TAKEN_FROM_ARGUMENT1: (1, False),
    pickletools.TAKEN_FROM_ARGUMENT4: (4, True),
    pickletools.TAKEN_FROM_ARGUMENT4U: (4, False),
    pickletools.TAKEN_FROM_ARGUMENT8U: (8, False),
}
OPCODES: Final = {op.code.encode("latin-1"): op for op in pickletools.opcodes}
LONG_BYTES: Final = 1 << 20  #: a longer value is skipped: no name is that long
CHECKED: Final = 64  #: instructions after which a file with a protocol is taken for a pickle
#: instructions that call what was imported, or give it a state
CALLS: Final = frozenset(("REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"))
REGISTRY: Final = frozenset(("EXT1", "EXT2", "EXT4"))
PUT: Final = frozenset(("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"))
GET: Final = frozenset(("GET", "BINGET", "LONG_BINGET"))
TEXTS: Final = frozenset(("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"))
NOTED: Final = frozenset(("PROTO", "FRAME", "GLOBAL", "STACK_GLOBAL", *CALLS, *REGISTRY))


class _Instructions:
    """The instructions of a stream, and their arguments as bytes.

    ``pickletools`` would refuse arguments that unpickling accepts, such as ``I0x10``.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[tuple[pickletools.OpcodeInfo, bytes]]:
        """Yield each instruction up to STOP.

        :raises ValueError: the stream ends, or something else follows.
        """
        while code := self._stream.read(1):
            instruction = OPCODES.get(code)
            if instruction is None:
                raise ValueError("not an instruction")
            yield instruction, self._argument(instruction)
            if instruction.name == "STOP":
                return
        raise ValueError("no STOP")

    def _argument(self, instruction: pickletools.OpcodeInfo) -> bytes:
        kind = instruction.arg
        if kind is None:
            return b""
        if instruction.name in ("GLOBAL", "INST"):
            return self._line() + b"." + self._line()
        if kind.n == pickletools.UP_TO_NEWLINE:
            return self._line()
        if kind.n >= 0:
            return self._value(kind.n)
        width, is_signed = SIZES[kind.n]
        return self._value(int.from_bytes(self._value(width), "little", signed=is_signed))

    def _value(self, size: int) -> bytes:
        """Return the next *size* bytes; of a long value, nothing."""
        if 0 <= size <= LONG_BYTES:
            value = self._stream.read(size)
            left = size - len(value)
        else:
            value, left = b"", size
            while left > 0 and (piece := self._stream.read(min(left, LONG_BYTES))):
                left -= len(piece)
        if left:
            raise ValueError("cut short")
        return value

    def _line(self) -> bytes:
        """Return the next line; of a long one, nothing."""
        line = piece = self._stream.readline(LONG_BYTES)
        while piece and not piece.endswith(b"\n"):
            line, piece = b"", self._stream.readline(LONG_BYTES)
        if not piece:
            raise ValueError("cut short")
        return line[:-1]


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
        return is_used and any(name == UNKNOWN or NAME.fullmatch(name) for name in self.imports)


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
        self._dense = 0  #: all numbers below are used,
        self._others: set[int] = set()  #: and these

    def push(self, value: str | None) -> None:
        """Note a value; ``None`` is one that is not a string."""
        self.module, self.name = self.name, value

    def memoize(self, instruction: str, argument: bytes) -> None:
        """Note that the newest value gets a number."""
        # MEMOIZE takes the count of numbers, which is not the next one if some were left out
        is_counted = instruction == "MEMOIZE"
        number = self._dense + len(self._others) if is_counted else _number(instruction, argument)
        self._use(number)
        if self.name is not None:
            self._memo[number] = self.name
        else:
            self._memo.pop(number, None)

    def _use(self, number: int) -> None:
        if number > self._dense:
            self._others.add(number)
        elif number == self._dense:
            self._dense += 1
            while self._dense in self._others:
                self._others.remove(self._dense)
                self._dense += 1

    def recall(self, instruction: str, argument: bytes) -> None:
        """Push the value with a number."""
        self.push(self._memo.get(_number(instruction, argument)))

    def imported(self) -> str:
        """Return what STACK_GLOBAL imports now."""
        return f"{self.module}.{self.name}" if self.module and self.name else UNKNOWN


def _number(instruction: str, argument: bytes) -> int:
    """Return the number of a value: ``PUT`` and ``GET`` have it as digits."""
    is_text = instruction in ("PUT", "GET")
    return int(argument) if is_text else int.from_bytes(argument, "little")


def _text(argument: bytes) -> str | None:
    try:
        return argument.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def walk(stream: IO[bytes]) -> Walked:
    """Read *stream* to the end of its first pickle, or to bytes that are not an instruction.

    Nothing is imported or called. A pickle acts while it is loaded, instruction by instruction,
    so one that breaks off counts as far as it can be read.
    """
    walked, names, stack = Walked(), _Names(), _Stack()
    try:
        # a pickle can have millions of instructions, so the frequent ones come first
        for instruction, argument in _Instructions(stream):
            walked.count += 1
            kind = instruction.name
            if walked.count <= CHECKED or not walked.has_protocol:
                stack.follow(instruction)
            if kind in TEXTS:
                names.push(_text(argument))
            elif kind in PUT:
                names.memoize(kind, argument)
            elif kind in GET:
                names.recall(kind, argument)
            elif kind not in NOTED:
                names.push(None)
            else:
                _note(walked, names, kind, argument)
        walked.is_whole = True
    except Exception:  # noqa: BLE001 - hostile bytes; whatever they do, they are not whole
        walked.is_whole = False
    return walked


def _note(walked: Walked, names: _Names, instruction: str, argument: bytes) -> None:
    if instruction == "PROTO":
        if walked.count == 1 and argument[0] > NEWEST:
            raise ValueError("not a protocol of pickle")
        walked.has_protocol |= walked.count == 1
        return
    if instruction == "FRAME":
        return
    if instruction in ("GLOBAL", "INST"):
        walked.imports.append(_text(argument) or UNKNOWN)
    elif instruction == "STACK_GLOBAL":
        walked.imports.append(names.imported())
    elif instruction in REGISTRY:
        walked.imports.append(UNKNOWN)
    walked.calls += instruction in CALLS
    names.push(None)
