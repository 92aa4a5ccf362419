# SPDX-License-Identifier: Apache-2.0
"""Jobs as files of the run directory, so that any front-end finds those of all.

``ID`` says of which model a job is and is there as long as the job; ``ID.answer`` is what it
was answered with. The first part of an id names the front-end that has the job under way,
which holds a lock on a file of that name: when it is gone, so are the answers it owed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import secrets
from contextlib import suppress
from struct import Struct as Layout
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
from msgspec import Struct, structs

from servekit.extension import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Found", "JobFolder", "name_in"]

TARGET = re.compile(rb"/jobs/([0-9a-f]{8}-[0-9a-f]{32})(?:/result)?(?:\?.*)?")
NAME_LENGTH = 41  #: of a job; names of its other files are longer, those of front-ends shorter
ANSWER, PART = ".answer", ".part"
SIZE = Layout("<I")  #: of the head, in msgpack; the body follows


class Answered(NamedTuple):
    """A job that has its answer."""

    since: float  #: ``monotonic``, when we saw it
    size: int


class Head(Struct, array_like=True):
    """What is kept of a response besides its body."""

    status: int
    media_type: str
    request_id: str
    timing: bytes
    fields: list[tuple[str, str]]

    @classmethod
    def of(cls, response: HttpResponse) -> Self:
        """Return that of *response*."""
        return cls(
            response.status,
            response.media_type,
            response.request_id,
            response.timing,
            [*response.fields],
        )


class Found(NamedTuple):
    """A job."""

    model: str
    request_id: str
    result: HttpResponse | None  #: ``None``: it is under way


def name_in(target: bytes) -> str:
    """Return the job that a request target names, as such or by its result; "" if it names none."""
    found = TARGET.fullmatch(target)
    return found[1].decode() if found else ""


class JobFolder:
    """What one front-end sees of the jobs of all."""

    def __init__(self, directory: Path, ttl_s: float) -> None:
        """Use *directory*, where an answer stays for *ttl_s*. On a full disk, try again later."""
        self._directory, self._ttl_s = directory, ttl_s
        self._owner = secrets.token_hex(4)
        self._lock: int | None = None
        with suppress(OSError):
            self._sign()
        self._answered: dict[str, Answered] = {}  #: as seen by ``scan``
        self.count = 0  #: of all front-ends, as of the last ``scan`` and what we did since
        self.size = 0  #: bytes of their answers; who ``put``s adds them
        self.pending: set[str] = set()  #: names of those without an answer, as of the last ``scan``

    def add(self, model: str, request_id: str) -> str:
        """Return the id of a new job, which nobody can guess.

        :raises OSError: there is no room.
        """
        if self._lock is None:
            self._sign()
        name = f"{self._owner}-{secrets.token_hex(16)}"
        self._write(name, [msgspec.json.encode((model, request_id))])
        self.count += 1
        self.pending.add(name)
        return name

    def put(self, name: str, response: HttpResponse) -> None:
        """Keep *response* as the result of a job, unless it has been removed. Runs in any thread.

        :raises OSError: there is no room.
        """
        if (self._directory / name).exists():
            part = self._directory / f"{name}.{self._owner}{PART}"  # others may write one too
            head = msgspec.msgpack.encode(Head.of(response))
            self._write(part.name, [SIZE.pack(len(head)), head, response.body])
            part.rename(self._directory / (name + ANSWER))

    def find(self, name: str) -> Found | None:
        """Return the job called *name*, if there is one."""
        return self.look(self._directory, name)

    @staticmethod
    def look(directory: Path, name: str) -> Found | None:
        """Return the job called *name* of *directory*, if there is one."""
        try:
            told = (directory / name).read_bytes()
            model, request_id = msgspec.json.decode(told, type=tuple[str, str])
        except (FileNotFoundError, msgspec.DecodeError):  # or the disk was full
            return None
        try:
            with (directory / (name + ANSWER)).open("rb") as file:
                whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return Found(model, request_id, None)
        (size,) = SIZE.unpack_from(whole)
        head = msgspec.msgpack.decode(whole[SIZE.size : SIZE.size + size], type=Head)
        body = memoryview(whole)[SIZE.size + size :]
        return Found(model, request_id, HttpResponse(body=body, **structs.asdict(head)))

    def remove(self, name: str) -> None:
        """Forget a job; who still reads its answer may finish."""
        answer = self._directory / (name + ANSWER)
        with suppress(FileNotFoundError):
            (self._directory / name).unlink()
            self.count -= 1
        with suppress(FileNotFoundError):
            size = answer.stat().st_size
            answer.unlink()
            self.size -= size

    def scan(self, now: float) -> list[str]:
        """Let time pass; return the jobs under way whose front-end is gone."""
        try:
            files = os.listdir(self._directory)  # noqa: PTH208 - of thousands the names are enough
        except FileNotFoundError:
            return []  # there was no room for it yet
        names = {file for file in files if len(file) == NAME_LENGTH}
        done = names & {file[:NAME_LENGTH] for file in files if file.endswith(ANSWER)}
        known = self._answered
        self._answered = {name: known[name] for name in known if name in done}
        for name in done - known.keys():
            self._answered[name] = Answered(now, _size(self._directory / (name + ANSWER)))
        self.count, self.pending = len(names), names - done
        self.size = sum(answered.size for answered in self._answered.values())
        for name, answered in self._answered.items():  # the oldest first
            if now - answered.since < self._ttl_s:
                break
            self.remove(name)
        for file in files:
            if len(file) > NAME_LENGTH and file[:NAME_LENGTH] not in names:
                (self._directory / file).unlink(missing_ok=True)  # written for a job just removed
        return self._ownerless(files)

    def _ownerless(self, files: Iterable[str]) -> list[str]:
        owners = {file for file in files if len(file) == len(self._owner)} - {self._owner}
        alive = {self._owner} | {owner for owner in owners if self._is_alive(owner)}
        return [name for name in self.pending if name.partition("-")[0] not in alive]

    def _is_alive(self, owner: str) -> bool:
        """Whether a front-end still holds its lock; the file of one that does not goes."""
        path = self._directory / owner
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        path.unlink(missing_ok=True)
        return False

    def _sign(self) -> None:
        """Say that we live: the lock goes with us.

        :raises OSError: there is no room.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        new = self._directory / f"new-{self._owner}"  # nobody takes it for one that is gone
        lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            new.rename(self._directory / self._owner)
        except OSError:
            os.close(lock)
            raise
        self._lock = lock

    def _write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(self._directory / name, flags, 0o600)
        try:
            with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - it is open already
                for piece in pieces:
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[file.write(rest) :]
        except OSError:
            (self._directory / name).unlink(missing_ok=True)
            raise


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has just been removed
        return 0
