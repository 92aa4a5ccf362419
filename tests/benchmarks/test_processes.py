# SPDX-License-Identifier: Apache-2.0
import os
import sys

import pytest

from tests.benchmarks.processes import (
    ServerProcess,
    Stat,
    parse_pss,
    parse_stat,
    read_stats,
    wait_until,
)

STAT = "7 ({name}) {state} 3 7 5 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 999 0 0"

#: A parent that starts a child that ignores SIGTERM and works; both say so in a file.
STUBBORN = """
import pathlib, signal, subprocess, sys
child = "import pathlib, signal; signal.signal(15, signal.SIG_IGN); " \\
        "pathlib.Path('child').touch(); [n for n in iter(int, 1)]"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
signal.pause()
"""


@pytest.mark.parametrize(
    ("name", "state", "expected"),
    [
        pytest.param("nginx", "S", Stat(7, 999, 3, 5, 100), id="plain"),
        pytest.param("a) Z (b", "R", Stat(7, 999, 3, 5, 100), id="a name that looks like more"),
        pytest.param("nginx", "Z", None, id="a zombie is not there"),
    ],
)
def test_a_process_is_read_from_proc(name, state, expected):
    assert parse_stat(STAT.format(name=name, state=state)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "55aa-7ffd ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss: 7 kB\nPss_Dirty: 3 kB\n",
            7168,
            id="Pss",
        ),
        pytest.param("", 0, id="a process that has gone"),
    ],
)
def test_memory_is_read_from_proc(text, expected):
    assert parse_pss(text) == expected


@pytest.fixture
def stubborn(tmp_path):
    process = ServerProcess([sys.executable, "-c", STUBBORN], env=dict(os.environ), cwd=tmp_path)
    yield process
    process.stop()


def test_cpu_of_a_descendant_in_another_session_counts(stubborn):
    assert wait_until(lambda: stubborn.cpu_s() > 0.1, seconds=20), "no CPU time within 20 s"


def test_memory_of_every_descendant_counts(stubborn, tmp_path):
    assert wait_until((tmp_path / "child").exists, seconds=20), "no child within 20 s"

    sizes = stubborn.pss_bytes()

    assert len(sizes) == 2
    assert all(size > 1_000_000 for size in sizes.values()), sizes


def test_nothing_of_the_tree_is_left_after_stop(stubborn, tmp_path):
    assert wait_until((tmp_path / "child").exists, seconds=20), "no child within 20 s"
    tree = {stat.pid for stat in stubborn._tree()}

    stubborn.stop()

    assert len(tree) == 2
    assert wait_until(lambda: not tree & {s.pid for s in read_stats()}, seconds=5), f"left: {tree}"
