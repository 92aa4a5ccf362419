# SPDX-License-Identifier: Apache-2.0
"""Two things that happen to a model at once; workers and prepare children are fakes."""

import errno

import pytest

from servekit.ipc.operations import Load
from servekit.supervisor.models import replica_keeper
from servekit.supervisor.os.coroutines import run_coroutine, sleep

from .in_process import InProcess


@pytest.fixture
def server(monkeypatch, run_dir):
    """Serve ``digits/1.0``."""
    server = InProcess(monkeypatch, run_dir, "/digits-1.0")
    yield server
    server.close()


def test_a_model_is_idle_for_the_first_of_those_who_wait(server):
    """The second one waits until what the first one begins is over."""
    work, found = server.registry.find("digits").work, []

    async def pause():
        await sleep(server.loop, 0.001)

    async def begin():
        await work.until_idle()
        work.begin("swap", pause())

    async def look():
        await work.until_idle()
        found.append(work.doing)

    work.begin("reload", pause())
    run_coroutine(server.loop, begin())
    run_coroutine(server.loop, look())
    server.until(lambda: found)

    assert found == [""]


def test_ranks_whose_start_finds_no_descriptor_are_tried_again(server, monkeypatch):
    """The error is that of a worker that cannot be started; the load slot is free again."""

    def boot_of(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(replica_keeper, "boot_of", boot_of)

    row = server.do(Load(source="/digits-2.0", model="digits"))

    assert (row.state, row.status) == ("failed", 422)
    assert "cannot be started: Too many open files" in row.error
    assert not server.registry.is_loading
