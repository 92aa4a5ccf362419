# SPDX-License-Identifier: Apache-2.0
"""Jobs as files of one directory, so that every front-end finds those of all.

``ID`` names the model of a job and exists as long as the job; ``ID.result`` is its result. An id
begins with the name of the front-end that runs the job, which holds a lock on a file of that name:
once the lock is free, the front-end is gone, and its pending jobs will get no result.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import secrets
from contextlib import suppress
from struct import Struct as Layout
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec
from msgspec import Struct, structs

from servekit.extension import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["JobStore", "StoredJob", "name_in", "read_job", "read_jobs"]

TARGET: Final = re.compile(rb"/jobs/([0-9a-f]{8}-[0-9a-f]{32})(?:/result)?(?:\?.*)?")
NAME_LENGTH: Final = (
    41  #: the name of a job; its other files have longer names, front-ends shorter ones
)
RESULT, PART = ".result", ".part"
SIZE: Final = Layout("<I")  #: bytes of the head, which is msgpack; the body follows


class StoredJob(NamedTuple):
    """A job as any front-end reads it."""

    model: str
    request_id: str
    result: HttpResponse | None  #: ``None``: it is pending


class Head(Struct, array_like=True):
    """All of a stored result but its body."""

    status: int
    media_type: str
    request_id: str
    timing: bytes
    fields: list[tuple[str, str]]
    model_version: bytes

    @classmethod
    def of(cls, response: HttpResponse) -> Self:
        """Return the head of *response*."""
        return cls(
            response.status,
            response.media_type,
            response.request_id,
            response.timing,
            [*response.fields],
            response.model_version,
        )


class SeenResult(NamedTuple):
    """A result as ``scan`` has seen it."""

    since: float  #: ``monotonic``
    size: int


def name_in(target: bytes) -> str:
    """Return the job that a request target is about, or ""."""
    found = TARGET.fullmatch(target)
    return found[1].decode() if found else ""


def read_job(directory: Path, name: str) -> StoredJob | None:
    """Return the job called *name*, if there is one; its result is mapped, not read."""
    try:
        described = (directory / name).read_bytes()
        model, request_id = msgspec.json.decode(described, type=tuple[str, str])
    except (FileNotFoundError, msgspec.DecodeError):  # or the disk was full
        return None
    try:
        with (directory / (name + RESULT)).open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        return StoredJob(model, request_id, None)
    (size,) = SIZE.unpack_from(whole)
    head = msgspec.msgpack.decode(whole[SIZE.size : SIZE.size + size], type=Head)
    body = memoryview(whole)[SIZE.size + size :]
    return StoredJob(model, request_id, HttpResponse(body=body, **structs.asdict(head)))


def read_jobs(directory: Path) -> dict[str, StoredJob]:
    """Return all jobs of *directory* by name. Runs in any thread."""
    names = [path.name for path in directory.glob("*") if len(path.name) == NAME_LENGTH]
    jobs = {name: read_job(directory, name) for name in sorted(names)}
    return {name: job for name, job in jobs.items() if job is not None}


class JobStore:
    """The jobs of all front-ends, as one of them sees them."""

    def __init__(self, directory: Path, ttl_s: float) -> None:
        """Use *directory*, where a result stays for *ttl_s*. A full disk is no error here."""
        self._directory, self._ttl_s = directory, ttl_s
        self._owner = secrets.token_hex(4)
        self._lock: int | None = None
        with suppress(OSError):
            self._take_lock()
        self._stored: dict[str, SeenResult] = {}  #: by job
        self.count = 0  #: of all front-ends, as of the last ``scan`` and what we did since
        self.size = 0  #: bytes of their results; the caller of ``put`` adds them
        self.pending: set[str] = set()  #: names of jobs without a result, as of the last ``scan``

    def add(self, model: str, request_id: str) -> str:
        """Return the id of a new job, which nobody can guess.

        :raises OSError: the disk is full.
        """
        if self._lock is None:
            self._take_lock()
        name = f"{self._owner}-{secrets.token_hex(16)}"
        self._write(name, [msgspec.json.encode((model, request_id))])
        self.count += 1
        self.pending.add(name)
        return name

    def put(self, name: str, response: HttpResponse) -> None:
        """Store the result of a job, unless the job has been removed. Runs in any thread.

        :raises OSError: the disk is full.
        """
        if (self._directory / name).exists():
            part = self._directory / f"{name}.{self._owner}{PART}"  # others may write one, too
            head = msgspec.msgpack.encode(Head.of(response))
            self._write(part.name, [SIZE.pack(len(head)), head, response.body])
            part.rename(self._directory / (name + RESULT))

    def find(self, name: str) -> StoredJob | None:
        """Return the job called *name*, if there is one."""
        return read_job(self._directory, name)

    def remove(self, name: str) -> None:
        """Remove a job; responses that are being sent from its result are completed."""
        result = self._directory / (name + RESULT)
        with suppress(FileNotFoundError):
            (self._directory / name).unlink()
            self.count -= 1
        with suppress(FileNotFoundError):
            size = result.stat().st_size
            result.unlink()
            self.size -= size

    def scan(self, now: float) -> list[str]:
        """Count what there is and remove old jobs; return the pending ones that nobody runs."""
        try:
            files = os.listdir(self._directory)  # noqa: PTH208 - the names of thousands suffice
        except FileNotFoundError:
            return []  # the disk has been full until now
        names = {file for file in files if len(file) == NAME_LENGTH}
        done = names & {file[:NAME_LENGTH] for file in files if file.endswith(RESULT)}
        known = self._stored
        self._stored = {name: known[name] for name in known if name in done}
        for name in done - known.keys():
            self._stored[name] = SeenResult(now, _size(self._directory / (name + RESULT)))
        self.count, self.pending = len(names), names - done
        self.size = sum(stored.size for stored in self._stored.values())
        for name, stored in self._stored.items():  # the oldest first
            if now - stored.since < self._ttl_s:
                break
            self.remove(name)
        for file in files:
            if len(file) > NAME_LENGTH and file[:NAME_LENGTH] not in names:
                (self._directory / file).unlink(missing_ok=True)  # its job was just removed
        return self._ownerless(files)

    def _ownerless(self, files: Iterable[str]) -> list[str]:
        owners = {file for file in files if len(file) == len(self._owner)} - {self._owner}
        alive = {self._owner} | {owner for owner in owners if self._is_alive(owner)}
        return [name for name in self.pending if name.partition("-")[0] not in alive]

    def _is_alive(self, owner: str) -> bool:
        """Whether a front-end still holds its lock; if not, the file of the lock is removed."""
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

    def _take_lock(self) -> None:
        """Hold the lock that shows others that this front-end is alive.

        :raises OSError: the disk is full.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        new = self._directory / f"new-{self._owner}"  # not locked yet, so not under its own name
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
