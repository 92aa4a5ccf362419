# SPDX-License-Identifier: Apache-2.0
"""How much memory is left, read from files as the kernel writes them; the limit on descriptors."""

import subprocess
import sys

import pytest

from servekit.supervisor.os.resources import available_bytes

MEMINFO = "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n"
STAT = "anon 5\ninactive_file 100\n"
KIB_1000 = 1000 * 1024


def group(place, limit, current):
    return {
        f"sys/fs/cgroup/{place}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{place}memory.current": f"{current}\n",
        f"sys/fs/cgroup/{place}memory.stat": STAT,
    }


OURS = {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n"}


@pytest.mark.parametrize(
    ("files", "available"),
    [
        pytest.param({}, None, id="nothing is known"),
        pytest.param({"proc/meminfo": "MemTotal: 5 kB\n"}, None, id="an old kernel"),
        pytest.param({"proc/meminfo": MEMINFO}, KIB_1000, id="machine"),
        pytest.param(OURS, KIB_1000, id="groups without limits"),
        pytest.param(OURS | group("a/b/", "max", 7), KIB_1000, id="unlimited group"),
        pytest.param(OURS | group("a/b/", 5000, 4000), 1100, id="group, less its old pages"),
        pytest.param(OURS | group("a/", 5000, 4500), 600, id="group around ours"),
        pytest.param(OURS | group("", 900, 400), 600, id="group of a container"),
        pytest.param(OURS | group("a/b/", 100, 900), 0, id="group over its limit"),
    ],
)
def test_available_bytes(tmp_path, files, available):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert available_bytes(tmp_path) == available


def test_this_machine_says_how_much_it_has():
    assert 0 < available_bytes() < 1 << 50


@pytest.mark.parametrize(("soft", "expected"), [(64, 512), (512, 512)])
def test_descriptor_limit_is_raised_to_the_hard_one(soft, expected):
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 512));"
        "from servekit.supervisor.os.resources import raise_descriptor_limit;"
        "print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == [str(expected), "512", "512"]
