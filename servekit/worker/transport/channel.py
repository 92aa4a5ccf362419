# SPDX-License-Identifier: Apache-2.0
"""The connection to one front-end, and the shared memory for its large bodies and answers."""

import socket
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from servekit.errors import OutOfMemory
from servekit.ipc.arena import OVERFLOW_BYTES, Arena, Pieces
from servekit.ipc.arena_reader import ArenaReader, Look
from servekit.ipc.batches import Answer, Item, RequestMessage, SentItem, Slab, Welcome
from servekit.ipc.cancellation import CancelledReader
from servekit.ipc.channel import ChannelClosed, FrameReader
from servekit.worker.prediction.batch_result import Answered
from servekit.worker.prediction.current_batch import OpenItem
from servekit.worker.prediction.error_answers import error_answer
from servekit.worker.prediction.objects import OBJECT

if TYPE_CHECKING:
    from servekit.worker.transport.calls import CallSocket

__all__ = ["FrontEndChannel", "SharedBodies", "peer_user"]

NO_PIECES: Final[Mapping[int, Pieces]] = {}
PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


def peer_user(sock: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    return int(PEER.unpack(credentials)[1])


class FrontEndChannel:
    """The connection to one front-end."""

    __slots__ = ("_is_open", "_reader", "calls", "is_sampling", "shared", "sock")

    def __init__(self, sock: socket.socket, shared: "SharedBodies") -> None:
        self.calls: CallSocket | None = None  #: if its services may call other models
        self.sock = sock
        self.shared = shared
        self._reader: FrameReader[Any] = FrameReader(sock, RequestMessage)
        self._is_open = False
        self.is_sampling = False  #: the front-end wants spans of sampled requests

    def read(self) -> list[Any]:
        """Receive once. The first message brings the descriptors of the front-end's memory."""
        if self._is_open:
            return self._reader.read()
        messages, descriptors = self._reader.read_first(2)
        self.shared.open(*descriptors)
        self._is_open = True
        self.is_sampling = isinstance(messages[0], Welcome) and messages[0].is_sampling
        return messages


class SharedBodies:
    """The memory that one front-end and this worker share."""

    def __init__(self, arena_bytes: int, large_body_bytes: int) -> None:
        """Put answers of *large_body_bytes* or more into an arena of *arena_bytes*.

        Answers for which it has no room go to its overflow, so that a client that is slow to
        read its answer never blocks the worker.
        """
        self.arena = Arena(arena_bytes, overflow=OVERFLOW_BYTES)
        self._large_body_bytes = large_body_bytes
        self._bodies: ArenaReader | None = None
        self.cancelled: CancelledReader | None = None
        self._looks: dict[int, Look] = {}
        self._answers: dict[int, Slab] = {}

    def open(self, bodies: int, cancelled: int) -> None:
        """Map the memory whose descriptors the front-end sent with its first message."""
        self._bodies = ArenaReader(bodies)
        self.cancelled = CancelledReader(cancelled)

    def look(self, items: list[SentItem], takes_view: Callable[[bytes], bool]) -> list[OpenItem]:
        """Return *items* with bytes, or a read-only view, in place of each slab.

        :param takes_view: whether bodies of a content type may be views.
        :raises ChannelClosed: a slab lies outside the arena.
        """
        if not any(type(item.body) is Slab for item in items):
            return cast("list[OpenItem]", items)
        return [self._seen(item, takes_view) for item in items]

    def _seen(self, item: SentItem, takes_view: Callable[[bytes], bool]) -> OpenItem:
        slab = item.body
        if not isinstance(slab, Slab):
            return cast("OpenItem", item)
        if self._bodies is None:
            raise ChannelClosed("the peer sent no arena")
        content_type = item.content_type if item.protocol is None else OBJECT
        if not takes_view(content_type):
            return _with_body(item, bytes(self._bodies.view(slab)))
        self._looks[slab.offset] = look = self._bodies.look(slab)
        return _with_body(item, look.view)

    def let_go(self) -> list[int]:
        """Release every view; return the offsets of the bodies that the service still refers to."""
        if self._looks:
            self._looks = {at: look for at, look in self._looks.items() if not look.end()}
        return list(self._looks)

    @property
    def held(self) -> list[int]:
        """Offsets of bodies of answered batches that the service last referred to."""
        return list(self._looks)

    def lay_out(
        self, answers: list[Answered], pieces: Mapping[int, Pieces] = NO_PIECES
    ) -> list[Answer]:
        """Return *answers* with the large bodies moved to the arena.

        :param pieces: bodies by place, in place of those of *answers*; all are large.
        """
        limit = self._large_body_bytes
        if not pieces and all(len(answer[2]) < limit for answer in answers):
            return cast("list[Answer]", answers)
        found: list[Answer] = []
        for place, answer in enumerate(answers):
            body = pieces.get(place, answer[2])
            found.append(self._laid_out(answer, body) if len(body) >= limit else answer)
        return found

    def _laid_out(self, answer: Answered, body: bytes | Pieces) -> Answer:
        slab = self.arena.allocate(len(body))
        if slab is None:
            return error_answer(OutOfMemory())
        try:
            self.arena.write(slab, body)
        except OSError:  # the kernel has no memory for it
            self.arena.free(slab)
            return error_answer(OutOfMemory())
        self._answers[slab.offset] = slab
        return *answer[:2], slab

    def drop(self, answers: list[Answer]) -> None:
        """Free the large bodies of *answers*, which ``lay_out`` returned and nobody has sent."""
        self.free([body.offset for _, _, body in answers if isinstance(body, Slab)])

    def free(self, offsets: list[int]) -> None:
        """Free the answers at *offsets*, which the front-end has sent."""
        for offset in offsets:
            slab = self._answers.pop(offset, None)
            if slab is not None:
                self.arena.free(slab)
        if offsets and self.arena.is_empty:
            self.arena.trim()

    def close(self) -> None:
        """Give the memory up, after the channel is closed."""
        self.arena.close()


def _with_body(item: SentItem, body: bytes | memoryview) -> OpenItem:
    return Item(
        body,
        item.content_type,
        item.accept,
        item.request_id,
        item.deadline,
        item.headers,
        item.calls,
        item.protocol,
        item.identity,
        item.style,
    )
