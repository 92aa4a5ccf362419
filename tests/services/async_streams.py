# SPDX-License-Identifier: Apache-2.0
"""The services of ``streams``, written with coroutines."""

import asyncio
from collections.abc import AsyncIterator

from streams import Count, finish

from servekit import Done, InputError, Service, endpoint


class Generator(Service):
    """Counts in an async generator."""

    def load(self, context):
        self.context = context

    async def stream(self, value: Count) -> AsyncIterator[int]:
        (request,) = self.context.requests
        try:
            for number in range(value.to):
                yield number
                await asyncio.sleep(value.pause_s)
            assert self.context.requests[0].request_id == request.request_id
            finish(value)
        finally:
            print("closed", value.to, request.request_id, request.is_cancelled)

    @endpoint()
    async def double(self, value: int) -> int:
        return 2 * value

    @endpoint()
    async def letters(self, text: str) -> AsyncIterator[str]:
        for letter in text:
            await asyncio.sleep(0)
            yield letter


class Lists(Service):
    """Yields lists, and nothing."""

    async def stream(self, value: int) -> AsyncIterator[list[int] | None]:
        yield [value, value + 1]
        yield None
        yield []


class GeneratorPredict(Service):
    """A ``predict`` that is an async generator."""

    async def predict(self, text):
        for letter in text:
            yield letter


class Iterators(Service):
    """Awaits something before it has an iterator."""

    async def stream(self, value):
        await asyncio.sleep(0)
        return self.letters(value)

    async def letters(self, value):
        for letter in value:
            yield letter

    async def postprocess(self, output):
        await asyncio.sleep(0)
        return output.upper()


class Slots(Service):
    """Counts in slots."""

    def load(self, context):
        self.context, self.is_stepping = context, False

    async def admit(self, value: Count):
        assert not self.is_stepping
        await asyncio.sleep(0)
        if value.to < 0:
            raise InputError("to: below 0")
        (request,) = self.context.requests
        return {"input": value, "next": 0, "id": request.request_id}

    async def step(self, slots):
        self.is_stepping = True
        await asyncio.sleep(max(slot["input"].pause_s for slot in slots))
        assert [slot["id"] for slot in slots] == [each.request_id for each in self.context.requests]
        self.is_stepping = False
        return [self.advance(slot) for slot in slots]

    def advance(self, slot):
        number, count = slot["next"], slot["input"]
        slot["next"] += 1
        if number < count.to:
            return number
        try:
            finish(count)
        except (ArithmeticError, InputError) as error:
            return error
        return Done([number, "done"]) if count.then == "more" else Done()

    def evict(self, slot):
        assert not self.is_stepping
        print("closed", slot["input"].to)


class Broken(Service):
    """Breaks the contract, or itself."""

    def admit(self, value):
        return value

    async def step(self, slots):
        await asyncio.sleep(0.001)
        if "raise" in slots:
            raise ZeroDivisionError
        return [] if "short" in slots else [1 for _ in slots]

    async def evict(self, slot):
        raise ValueError("evict")


class Busy(Service):
    """Yields a million times, and never waits."""

    async def stream(self, value):
        for number in range(1_000_000):
            yield number
