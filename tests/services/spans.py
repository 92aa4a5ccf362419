# SPDX-License-Identifier: Apache-2.0
"""Services that add spans to the traces of their requests."""

import contextvars
from concurrent.futures import ThreadPoolExecutor

from servekit import Done, Service, span


class Tokenizes(Service):
    """A span within a span, one in a thread, and one that ends with an error."""

    def predict(self, batch):
        with span("prepare", inputs=len(batch)) as prepared:
            with span("tokenize"):
                pass
            with ThreadPoolExecutor(1) as pool:
                context = contextvars.copy_context()
                pool.submit(context.run, in_thread).result()
            prepared.set(tokens=12)
        if batch[0] == "fail":
            with span("fail"):
                raise ValueError("secret")
        return batch


def in_thread():
    with span("thread"):
        pass


class Doubles(Service):
    """The stage after another."""

    def predict(self, batch):
        with span("double"):
            return [each * 2 for each in batch]


class Generator(Service):
    """A span for each output, and one around all of them."""

    def stream(self, value):
        with span("all"):
            for number in range(value["to"]):
                with span("one", number=number):
                    pass
                yield number


class Slots(Service):
    """A span for each step, whatever the number of its members."""

    def admit(self, value):
        with span("admit"):
            return [value["to"]]

    def step(self, slots):
        with span("step", members=len(slots)):
            for slot in slots:
                slot[0] -= 1
        return [Done(slot[0]) if slot[0] == 0 else slot[0] for slot in slots]


class Coroutines(Service):
    """A span around something that is awaited."""

    async def predict(self, value):
        import asyncio

        with span("wait", value=value):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(in_thread)
        return value


class AsyncSlots(Service):
    """Async steps."""

    async def admit(self, value):
        return [value["to"]]

    async def step(self, slots):
        with span("step", members=len(slots)):
            for slot in slots:
                slot[0] -= 1
        return [Done(slot[0]) if slot[0] == 0 else slot[0] for slot in slots]


class Calls(Service):
    """Calls another model within a span."""

    def load(self, context):
        self.context = context

    def predict(self, batch):
        with span("ask"):
            return [self.context.call("other", each) for each in batch]
