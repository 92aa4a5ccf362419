# SPDX-License-Identifier: Apache-2.0
"""Returns whatever a test names: answers whose parts are of any type at all."""

import decimal
import fractions
import http
import math
from collections.abc import Iterator

import numpy as np

from servekit import ClientError, Done, InputError, Response, Service, endpoint
from servekit.types import Audio, File
from servekit.worker.prediction import predictor


class Text(str):
    """A text of a type of its own, which shows itself as another."""

    def __str__(self):
        return "another"

    def encode(self, *_):
        return "not bytes"


class Hostile:
    """Raises at whatever is asked of it."""

    def _raise(self, *_):
        raise RuntimeError("leave me alone")

    __str__ = __repr__ = __int__ = __index__ = __len__ = __iter__ = __eq__ = __hash__ = _raise
    __float__ = __bytes__ = __bool__ = __getitem__ = _raise


class ShortList(list):
    """Lists more than it counts."""

    def __len__(self):
        return 1


class Twice(Response):
    """Says another status than it was made with."""


CYCLE: list = []
CYCLE.append(CYCLE)
DEEP: list = []
for _ in range(5000):
    DEEP = [DEEP]

VALUES = {
    "int": 201,
    "int64": np.int64(201),
    "uint8": np.uint8(202),
    "float": 200.0,
    "half": 200.5,
    "float32": np.float32(203),
    "decimal": decimal.Decimal(200),
    "fraction": fractions.Fraction(201),
    "enum": http.HTTPStatus.ACCEPTED,
    "array": np.array(202),
    "arrays": np.zeros((2, 2)),
    "bool": True,
    "no": False,
    "none": None,
    "nan": math.nan,
    "inf": math.inf,
    "zero": 0,
    "negative": -1,
    "switching": 101,
    "empty status": 204,
    "huge": 10**30,
    "endless": 10**5000,
    "text": "text",
    "digits": "201",
    "bytes": b"bytes",
    "text of its own": Text("mine"),
    "numpy text": np.str_("text"),
    "long": "x" * 10_000,
    "line": "a\r\nSet-Cookie: b",
    "line feed": "a\nb",
    "nul": "a\0b",
    "snowman": "\u2603",
    "latin": "é",
    "surrogate": "\ud800",
    "csv": "text/csv",
    "csv line": "text/csv\n",
    "csv bytes": b"text/csv",
    "numpy csv": np.str_("text/csv"),
    "csv of its own": Text("text/csv"),
    "list": [1],
    "tuple": (1, 2),
    "set": {1},
    "object": object(),
    "hostile": Hostile(),
    "type": InputError,
    "exception": ValueError("a value"),
    "refusal": InputError("refused"),
    "odd refusal": InputError(Hostile(), Hostile()),
    "response": Response(1),
    "done": Done(1),
    "cycle": CYCLE,
    "deep": DEEP,
    "generator": (each for each in ()),
    "lambda": lambda: 1,
    "view": memoryview(b"abcd"),
    "view of floats": memoryview(np.zeros(2)),
    "mapping": {"a": 1},
    "mapping of odd keys": {(1, 2): 3},
    "headers": {"X-A": "b"},
    "header of a number": {"X-A": 5},
    "header of bytes": {b"X-A": b"b"},
    "header of None": {"X-A": None},
    "header of lines": {"X-A": "b\r\nX-B: c"},
    "header of no name": {"X A": "b"},
    "header of a hostile": {"X-A": Hostile()},
    "header 1": {1: "b"},
    "own header": {"Content-Length": "1"},
    "many headers": {f"X-{n}": "" for n in range(40)},
    "pairs": [("X-A", "b")],
    "errors": [{"field": "x", "message": "wrong"}],
    "odd errors": [None, 5, {"field": Hostile()}, {1: 2}],
}


def made(order):
    """Return what *order*, a kind and the names of its parts, asks for."""
    kind, parts = order["kind"], {name: VALUES[each] for name, each in order["parts"].items()}
    if kind == "changed":  # after it was made
        response = Twice(1)
        for name, value in parts.items():
            object.__setattr__(response, name, value)
        return response
    if kind == "changed refusal":
        refusal = InputError("refused")
        refusal.__dict__.update(parts)
        return refusal
    if kind == "file":
        return File(**{"name": "a", "content_type": "text/csv", "content": b"1"} | parts)
    if kind == "audio":
        return Audio(**{"samples": np.zeros(4), "sample_rate": 8000} | parts)
    kinds = {"response": Response, "input": InputError, "client": ClientError, "done": Done}
    return kinds[kind](**parts) if kind in kinds else parts["output"]


def each(batch):
    """Return what is made of each of *batch*; numbers stay what they are."""
    return [made(one) if isinstance(one, dict) else one for one in batch]


class Odd(Service):
    """Answers batches."""

    def predict(self, batch):
        return each(batch)

    @endpoint()
    def other(self, batch):
        return each(batch)

    @endpoint()
    def whole(self, batch):
        """Return what is made of the first of them, in the place of the list of all."""
        return made(batch[0]) if isinstance(batch[0], dict) else batch

    @endpoint()
    def short(self, batch):
        return ShortList(each(batch) * 2)

    @endpoint()
    def files(self, batch) -> list[File]:
        return [made(one) if isinstance(one, dict) else File("", "", b"1") for one in batch]

    @endpoint()
    def files_within(self, batch) -> list[dict[str, File]]:
        return [{"file": one} for one in self.files(batch)]

    @endpoint()
    def sounds(self, batch) -> list[Audio]:
        return [made(one) if isinstance(one, dict) else Audio(np.zeros(4), 8000) for one in batch]


class OddStream(Service):
    """Streams: first a number, then what is asked for."""

    def stream(self, value):
        yield 1
        yield made(value) if isinstance(value, dict) else value


class OddFiles(Service):
    """Streams files."""

    def stream(self, value) -> Iterator[File]:
        yield File("", "", b"1")
        yield made(value) if isinstance(value, dict) else value


class OddSlots(Service):
    """Gives slots, and what is asked for as the entry of one step."""

    def admit(self, value):
        return [value]

    def step(self, slots):
        return [self._entry(slot) for slot in slots]

    def _entry(self, slot):
        value = slot.pop() if slot else None
        return made(value) if isinstance(value, dict) else Done(value)

    def evict(self, slot):
        raise RuntimeError("not even this")


class Unforeseen(Service):
    """Answers ``odd`` with a media type that no frame can hold, past every check."""

    def load(self, context):
        written = predictor.written
        odd = np.str_("text/csv"), b"1"
        predictor.written = lambda plan, output, most: (
            odd if output == "odd" else written(plan, output, most)
        )

    def predict(self, batch):
        return batch


class UnforeseenStream(Unforeseen):
    """The same beside streams."""

    predict = Service.predict

    @endpoint()
    def whole(self, batch):
        return batch

    def stream(self, value):
        yield value
