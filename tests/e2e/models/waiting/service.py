# SPDX-License-Identifier: Apache-2.0
"""Waits in coroutines, and prints which of them were cancelled."""

import asyncio
import os
import time

from msgspec import Struct

from servekit import InputError, Service, endpoint


class Wait(Struct):
    """How long to wait, and how."""

    pause_s: float = 0.0
    then: str = ""


class Waiting(Service):
    """Returns how many have waited at the same time."""

    async def load(self, context):
        self.context, self.running, self.most = context, 0, 0

    async def predict(self, value: Wait) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(value.pause_s)
            await self.finish(value)
        except asyncio.CancelledError:
            print("cancelled", self.context.requests[0].request_id)
            raise
        finally:
            self.running -= 1
        return self.most

    async def finish(self, value):
        if value.then == "refuse":
            raise InputError("enough")
        if value.then == "block":
            time.sleep(1000)
        if value.then == "die":
            os._exit(9)
        while value.then == "ignore":
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                print("ignored")

    @endpoint()
    async def double(self, value: int) -> int:
        return 2 * value


class Double(Service):
    """Doubles, in batches."""

    def predict(self, batch: list[int]) -> list[int]:
        return [2 * each for each in batch]
