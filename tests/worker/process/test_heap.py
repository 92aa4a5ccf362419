# SPDX-License-Identifier: Apache-2.0
"""The memory that batches free is kept for the next one, and returned by an idle worker."""

import mmap
from pathlib import Path

import pytest

from servekit.ipc.batches import Ping, Pong
from tests.worker.worker_process import item

RAW = "application/octet-stream"
PHOTO = 602_112  #: bytes
BATCH = 8
BATCHES = 20
PAGES = BATCH * PHOTO // mmap.PAGESIZE  #: of the copies that one batch makes


class Photos:
    """A worker that gets batches of large bodies."""

    def __init__(self, worker):
        self.proc = Path(f"/proc/{worker.process.pid}")
        self.channel = worker.connect()
        body = bytes(PHOTO)
        self.items = [item(self.channel.lay_out(body), RAW) for _ in range(BATCH)]

    def predict(self, batches):
        for _ in range(batches):
            answers = self.channel.predict(*self.items)
            assert {media_type for media_type, _ in answers} == {"application/json"}

    def faults_per_batch(self):
        """Return how many pages the worker has to ask the kernel for, once it is warm."""
        self.predict(5)
        before = self._faults()
        self.predict(BATCHES)
        return (self._faults() - before) / BATCHES

    def _faults(self):
        return int(self.proc.joinpath("stat").read_text().rpartition(")")[2].split()[7])

    def pings(self, count):
        for _ in range(count):
            self.channel.send(Ping())
            assert self.channel.receive() == Pong("")

    def heap_bytes(self):
        """Return what the heap and the mappings without a file hold of the memory."""
        (line,) = [
            line
            for line in self.proc.joinpath("status").read_text().splitlines()
            if line.startswith("RssAnon:")
        ]
        return int(line.split()[1]) * 1024


@pytest.mark.parametrize("service", ["views:Copies", "views:Temporaries"])
def test_memory_of_a_batch_is_used_again_by_the_next(start, service):
    photos = Photos(start(service).boot())

    assert photos.faults_per_batch() < PAGES / 10


@pytest.mark.parametrize("service", ["views:Copies", "views:Temporaries"])
def test_idle_worker_gives_back_what_its_batches_used(start, service):
    photos = Photos(start(service).boot())
    photos.predict(1)  # which imports what it needs
    photos.pings(3)
    before = photos.heap_bytes()
    photos.predict(3)
    busy = photos.heap_bytes()
    photos.pings(3)  # the third is answered after the second has done its work

    assert busy - before > BATCH * PHOTO / 2
    assert photos.heap_bytes() - before < BATCH * PHOTO / 10


def test_ping_between_two_batches_gives_nothing_back(start):
    photos = Photos(start("views:Copies").boot())
    photos.predict(2)
    busy = photos.heap_bytes()
    photos.pings(1)
    photos.channel.predict(item(b"small", RAW))
    photos.pings(1)

    assert photos.heap_bytes() > busy - BATCH * PHOTO / 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "65536"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536"),
    ],
)
def test_who_sets_the_variables_of_malloc_has_chosen(start, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    photos = Photos(start("views:Copies").boot())

    assert photos.faults_per_batch() > PAGES / 2


def test_a_tunable_that_is_not_of_malloc_is_no_choice(start, monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=512")

    assert Photos(start("views:Copies").boot()).faults_per_batch() < PAGES / 10
