# SPDX-License-Identifier: Apache-2.0
"""Services whose methods are coroutines. They print what becomes of each input."""

import asyncio
import os
import time
from typing import Annotated

import numpy as np
from msgspec import Struct

from servekit import Array, InputError, Response, Service, endpoint


class Wait(Struct):
    """What to do with one input."""

    pause_s: float = 0.0
    then: str = ""


class Waits(Service):
    """Waits as long as its input says, and tells which request it has."""

    def load(self, context):
        self.context, self.running, self.most = context, 0, 0

    async def predict(self, value: Wait) -> dict[str, object]:
        (request,) = self.context.requests
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(value.pause_s)
            await self.finish(value)
            (after,) = self.context.requests
        except asyncio.CancelledError:
            print("cancelled", request.request_id, request.is_cancelled)
            raise
        finally:
            self.running -= 1
        return {"id": request.request_id, "after": after.request_id, "most": self.most}

    async def finish(self, value):
        if value.then == "refuse":
            raise InputError("enough")
        if value.then == "fail":
            raise ZeroDivisionError("secret")
        if value.then == "exit":
            raise SystemExit(3)
        if value.then == "exit in a task":
            await asyncio.create_task(self.leave())
        if value.then == "cancel":
            raise asyncio.CancelledError
        if value.then == "block":
            print("blocking")
            time.sleep(1000)
        if value.then == "fork" and (pid := os.fork()):
            print("child ended with", os.waitpid(pid, 0)[1])
        if value.then == "stay":
            await asyncio.shield(asyncio.sleep(1000))

    async def leave(self):
        raise SystemExit(4)

    @endpoint()
    async def double(self, value: int) -> int:
        await asyncio.sleep(0)
        return 2 * value

    @endpoint("ids")
    async def request_ids(self, value):
        await asyncio.sleep(0.01)
        return await asyncio.to_thread(lambda: [r.request_id for r in self.context.requests])


class Life(Service):
    """Does everything on the loop."""

    async def load(self, context):
        self.loop, self.told = asyncio.get_running_loop(), ["load"]
        self.beat = asyncio.create_task(self.tick())

    async def tick(self):
        while True:
            await asyncio.sleep(0.001)
            if "tick" not in self.told:
                self.told.append("tick")

    async def warm_up(self):
        await asyncio.sleep(0.005)
        self.told.append("warm_up")

    async def preprocess(self, request):
        await asyncio.sleep(0)
        if request.input == "refuse":
            raise InputError("not that")
        return [request.input]

    async def predict(self, value):
        assert asyncio.get_running_loop() is self.loop
        return [*value, *self.told]

    async def postprocess(self, output):
        await asyncio.sleep(0)
        return Response(output, status=201, headers={"X-Told": str(len(output))})

    async def ping(self):
        await asyncio.sleep(0)
        raise ValueError("not well")

    async def close(self):
        await asyncio.sleep(0)
        print("closed", sorted(self.told))


class PlainAround(Service):
    """Only ``predict`` is async."""

    def load(self, context):
        self.beat = asyncio.create_task(asyncio.sleep(1000))

    def preprocess(self, request):
        return request.input + 1

    async def predict(self, value):
        return value * 2

    def postprocess(self, output):
        return -output


class Tensor(Service):
    """Gets a mapping of arrays without a batch axis."""

    async def predict(self, value: dict[str, np.ndarray]):
        return {"y": value["x"] * 2}


class Vector(Service):
    """Gets one array."""

    async def predict(self, value: Annotated[np.ndarray, Array("float32", (2,))]) -> float:
        return float(value.sum())


class Calls(Service):
    """Calls another model."""

    def load(self, context):
        self.context = context

    async def predict(self, value):
        return await self.context.call_async("other", value)

    def stand_in(self, model, value):
        return [model, value]


class HalfAsync(Service):
    """Is async in part."""

    async def predict(self, value):
        return value

    @endpoint()
    def other(self, batch):
        return batch


class AsyncLoad(Service):
    """Loads in a coroutine that nobody would await."""

    async def load(self, context):
        pass

    def predict(self, batch):
        return batch


class AsyncStandIn(Service):
    """Has a coroutine where a plain method is called."""

    async def predict(self, value):
        return value

    async def stand_in(self, model, value):
        return value
