# SPDX-License-Identifier: Apache-2.0
"""Services whose outputs come one by one. They print what becomes of each input."""

import time
from collections.abc import Iterator

from msgspec import Struct

from servekit import Done, InputError, Service


class Count(Struct):
    """How far to count, and what to do there."""

    to: int
    then: str = ""
    pause_s: float = 0.0


def finish(count):
    """End as *count* asks for."""
    if count.then == "refuse":
        raise InputError("enough")
    if count.then == "fail":
        raise ZeroDivisionError("secret")
    if count.then == "exit":
        raise SystemExit(3)
    if count.then == "hang":
        time.sleep(1000)


class Generator(Service):
    """Counts in a generator."""

    def load(self, context):
        self.context = context

    def stream(self, value: Count) -> Iterator[int]:
        (request,) = self.context.requests
        try:
            for number in range(value.to):
                yield number
                time.sleep(value.pause_s)
            finish(value)
        finally:
            print("closed", value.to, request.request_id, request.is_cancelled)


class Lists(Service):
    """Yields lists, and nothing."""

    def stream(self, value: int) -> Iterator[list[int] | None]:
        yield [value, value + 1]
        yield None
        yield []


class GeneratorPredict(Service):
    """A ``predict`` that is a generator takes one input."""

    def predict(self, text):
        yield from text


class Slots(Service):
    """Counts in slots."""

    def load(self, context):
        self.context = context

    def admit(self, value: Count):
        if value.to < 0:
            raise InputError("to: below 0")
        (request,) = self.context.requests
        return {"input": value, "next": 0, "id": request.request_id}

    def step(self, slots):
        assert [slot["id"] for slot in slots] == [each.request_id for each in self.context.requests]
        time.sleep(max(slot["input"].pause_s for slot in slots))
        return [self.advance(slot) for slot in slots]

    def advance(self, slot):
        number, count = slot["next"], slot["input"]
        slot["next"] += 1
        if number < count.to:
            return number
        try:
            finish(count)
        except ArithmeticError as error:
            return error
        except InputError as error:
            return error
        return Done([number, "done"]) if count.then == "more" else Done()

    def evict(self, slot):
        print("closed", slot["input"].to)


class Sparse(Service):
    """Says nothing in every other step, and doubles what it says."""

    def admit(self, value):
        return iter([None, [1, 2], None, Done(3)])

    def step(self, slots):
        return [next(slot) for slot in slots]

    def postprocess(self, output):
        return 2 * output


class Broken(Service):
    """Breaks the contract, or itself."""

    def admit(self, value):
        return value

    def step(self, slots):
        if "raise" in slots:
            raise ZeroDivisionError
        return [] if "short" in slots else [1 for _ in slots]

    def evict(self, slot):
        raise ValueError("evict")


class Tensor(Service):
    """Yields the rows of its one array."""

    def stream(self, value):
        yield from value["x"] * 2


class Both(Service):
    """Does not know what it is."""

    def predict(self, batch):
        return batch

    def stream(self, value):
        yield value


class Unencodable(Service):
    """Yields what is not JSON."""

    def stream(self, value):
        yield 1
        yield float("nan")
