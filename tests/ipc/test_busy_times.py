# SPDX-License-Identifier: Apache-2.0
"""Whether processes may wait without sleep: by the setting, and by the quota of control groups."""

import os

import pytest

from servekit.ipc import busy_times
from servekit.ipc.busy_times import BUSY_S, busy_poll_s
from servekit.supervisor.os import resources
from servekit.system.cgroups import cpu_quota


def write(root, files):
    """Write *files*, path to content, below *root*."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


V2 = {"proc/self/cgroup": "0::/pod/c\n"}
V1 = {"proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/c\n0::/\n"}
GROUP = "sys/fs/cgroup/cpu/c"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(V2 | {"sys/fs/cgroup/pod/c/cpu.max": "50000 100000\n"}, 0.5, id="version 2"),
        pytest.param(V2 | {"sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5, id="only the root"),
        pytest.param(
            V2
            | {
                "sys/fs/cgroup/pod/c/cpu.max": "max 100000\n",
                "sys/fs/cgroup/pod/cpu.max": "200000 100000\n",
            },
            *(2.0,),
            id="of the group above",
        ),
        pytest.param(V2 | {"sys/fs/cgroup/pod/c/cpu.max": "max 100000\n"}, None, id="no quota"),
        pytest.param(V2, None, id="no files"),
        pytest.param({}, None, id="no groups"),
        pytest.param(
            V1 | {f"{GROUP}/cpu.cfs_quota_us": "25000\n", f"{GROUP}/cpu.cfs_period_us": "50000\n"},
            *(0.5,),
            id="version 1",
        ),
        pytest.param(
            V1 | {f"{GROUP}/cpu.cfs_quota_us": "-1\n", f"{GROUP}/cpu.cfs_period_us": "100000\n"},
            *(None,),
            id="version 1, no quota",
        ),
    ],
)
def test_quota(tmp_path, files, expected):
    assert cpu_quota(write(tmp_path, files)) == expected


@pytest.mark.parametrize(
    ("choice", "quota", "expected"),
    [
        pytest.param("on", 0.5, BUSY_S, id="on"),
        pytest.param("off", None, 0.0, id="off"),
        pytest.param("auto", None, BUSY_S, id="no quota"),
        pytest.param("auto", 1.0, 0.0, id="a quota would be used up, and all would have to stop"),
        pytest.param("auto", 4.0, BUSY_S, id="a quota of all cores"),
    ],
)
def test_choice(monkeypatch, choice, quota, expected):
    monkeypatch.setattr(busy_times, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})

    assert busy_poll_s(choice) == expected


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (0.1, 1), (2.4, 2), (9.0, 4)])
def test_usable_cores(monkeypatch, quota, cores):
    monkeypatch.setattr(resources, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})

    assert resources.usable_cores() == cores
