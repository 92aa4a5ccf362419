# SPDX-License-Identifier: Apache-2.0
"""Slots and async steps as an async generator for each input.

One task calls ``admit``, ``step`` and ``evict``, so that none of them begins before another ends.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Any

from servekit.service.base import Done
from servekit.service.spans import active_span, recording
from servekit.worker.coroutines.loop import is_being_cancelled, settled
from servekit.worker.process.log import report
from servekit.worker.streaming.stepping import checked_entries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from servekit.service.request import Request
    from servekit.worker.streaming.stepping import CurrentMembers

__all__ = ["AsyncSlots"]


class SlotMember:
    """One input, from its arrival to its eviction."""

    slot: Any = None

    def __init__(self, value: Any, request: Request) -> None:
        self.value, self.request = value, request
        active = active_span()
        self.recorder = active.recorder if active is not None else None  #: if it is traced
        self.entries: asyncio.Queue[Any] = asyncio.Queue()  #: its outputs, and the end
        self.has_left = False  #: nobody reads the entries any more
        self.is_evicted = asyncio.Event()


class AsyncSlots:
    """Steps with all members of one service, as long as there are any."""

    def __init__(self, service: Any, current: CurrentMembers) -> None:
        """Step with *service*, which sees the requests of its members in *current*."""
        self._service, self._current = service, current
        self._evict = getattr(service, "evict", lambda _slot: None)
        self._arrived: list[SlotMember] = []
        self._members: list[SlotMember] = []
        self._stepper: asyncio.Task[None] | None = None

    async def stream(self, value: Any) -> AsyncGenerator[Any, None]:
        """Yield the entries for one input."""
        member = SlotMember(value, self._current.requests()[0])
        self._arrived.append(member)
        if self._stepper is None or self._stepper.done():
            # a step is for several requests: it does not inherit the context of one
            self._stepper = asyncio.create_task(self._run(), context=Context())
        try:
            while True:
                entry = await member.entries.get()
                yield entry
                if _is_last(entry):
                    return
        finally:
            member.has_left = True
            await member.is_evicted.wait()

    async def _run(self) -> None:
        try:
            while self._arrived or self._members:
                await self._admit()
                for member in [each for each in self._members if each.has_left]:
                    await self._leave(member)
                if self._members:
                    await self._step()
                await asyncio.sleep(0)  # those who get the entries run before the next step
        finally:
            for member in [*self._members, *self._arrived]:
                await self._leave(member)

    async def _admit(self) -> None:
        arrived, self._arrived = self._arrived, []
        for member in arrived:
            if member.has_left:
                member.is_evicted.set()
                continue
            self._current.members = (member,)
            try:
                with recording([member.recorder] if member.recorder else []):
                    member.slot = await settled(self._service.admit(member.value))
                self._members.append(member)
            except BaseException as error:
                member.entries.put_nowait(error)
                member.is_evicted.set()
                if is_being_cancelled(error):
                    raise

    async def _step(self) -> None:
        self._current.members = members = list(self._members)
        try:
            slots = [member.slot for member in members]
            with recording([member.recorder for member in members if member.recorder]):
                entries = checked_entries(await self._service.step(slots), len(members))
        except BaseException as error:
            if is_being_cancelled(error):
                raise
            entries = [error] * len(members)
        for member, entry in zip(members, entries, strict=True):
            member.entries.put_nowait(entry)
            if _is_last(entry):
                await self._leave(member)

    async def _leave(self, member: SlotMember) -> None:
        """Let the service release the slot of *member*, once."""
        if member in self._members:
            self._members.remove(member)
            try:
                await settled(self._evict(member.slot))
            except BaseException as error:  # noqa: BLE001 - an author's clean-up may raise anything
                report("evict failed", error)
        member.is_evicted.set()


def _is_last(entry: Any) -> bool:
    return isinstance(entry, Done | BaseException)
