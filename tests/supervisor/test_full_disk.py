# SPDX-License-Identifier: Apache-2.0
"""A disk that is full under the run directory costs reports and jobs, and no prediction."""

import http.client
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from .conftest import WAIT_S, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk"),
]

SIZE = 512 * 1024
INODES = 64


@pytest.fixture
def run_dir():
    """A disk of its own, which is small."""
    path = Path(tempfile.mkdtemp(prefix="sk"))
    options = f"size={SIZE},nr_inodes={INODES}"
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", path], check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)
    shutil.rmtree(path)


def fill(place, *, pages_left=0):
    """Leave so many pages of room in *place*."""
    with (place / "filling").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\1" * 4096)
        except OSError:
            file.truncate((file.tell() // 4096 - pages_left) * 4096)


def use_up_names(place):
    """Leave no room for another file in *place*."""
    try:
        for number in range(10 * INODES):
            (place / f"other-{number}").touch()
    except OSError:
        return
    raise AssertionError("there is room for more files")


def ask(url, path="/digits/predict", body=b"[1]", **headers):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=WAIT_S)
    try:
        headers = {"Content-Type": "application/json", **headers}
        connection.request("POST" if body else "GET", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def counted(url):
    lines = ask(url, "/metrics", b"")[1].decode().splitlines()
    (line,) = [
        line for line in lines if line.startswith("servekit_requests_total{") and '"200"' in line
    ]
    return float(line.split()[-1])


def lasting(pids):
    """Return the front-ends and the workers; others come and go."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"servekit.frontend" in command or b"servekit.worker" in command:
                found.add(pid)
    return found


@pytest.mark.parametrize("shortage", [fill, use_up_names])
@pytest.mark.parametrize("front_ends", [1, 2])
def test_serving_and_counting_go_on(start, model, run_dir, processes, shortage, front_ends):
    directory = model()
    server = start(
        directory, "--jobs", "8", "--front-ends", front_ends, stand_ins={}, TMPDIR=str(run_dir)
    )
    url = server.wait_for("serving")["url"]
    asked = [ask(url)]
    shortage(run_dir)
    before = lasting(processes(server.process.pid))
    asked += [ask(url) for _ in range(20)]
    after = lasting(processes(server.process.pid))
    server.signal(signal.SIGHUP)
    server.wait_for("model_unchanged")
    wait_until(
        lambda: len(lasting(processes(server.process.pid)) - after) >= front_ends, "new front-ends"
    )
    asked += [ask(url) for _ in range(20)]
    os.kill(server.wait_for("worker_ready")["pid"], signal.SIGKILL)
    server.wait_for("worker_ready", generation=2)
    asked += [ask(url)]

    assert before == after
    assert {status for status, _ in asked} == {200}
    assert counted(url) == len(asked)
    assert ask(url, Prefer="respond-async")[0] in (202, 503)
    assert not [event for event in server.events if event["event"] == "front_end_exited"]
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0


def test_a_version_that_finds_no_room_leaves_the_old_one_serving(start, model, run_dir):
    directory = model()
    server = start(directory, stand_ins={}, TMPDIR=str(run_dir))
    url = server.wait_for("serving")["url"]
    use_up_names(run_dir)
    (directory / "other.txt").write_text("changed")
    server.signal(signal.SIGHUP)
    reason = server.wait_for("reload_failed")["reason"]

    assert reason == "cannot be launched: No space left on device"
    assert ask(url)[0] == 200


@pytest.mark.parametrize("pages_left", [0, 1])
def test_a_start_without_room_is_refused_in_one_line(start, model, run_dir, pages_left):
    fill(run_dir, pages_left=pages_left)
    server = start(model(), stand_ins={}, TMPDIR="/tmp")

    assert server.wait_exit() == 3
    assert server.messages() == [f"run_dir: {run_dir}: No space left on device"]
    assert [path.name for path in run_dir.iterdir()] == ["filling"]


def test_a_start_without_room_for_another_file_is_refused_in_one_line(start, model, run_dir):
    use_up_names(run_dir)
    for number in range(2):  # for the directory and its lock
        (run_dir / f"other-{number}").unlink()
    server = start(model(), stand_ins={}, TMPDIR="/tmp")

    assert server.wait_exit() == 3
    assert server.messages() == [f"run_dir: {run_dir}: No space left on device"]


def test_a_model_without_room_for_its_socket_is_refused(start, model, run_dir):
    use_up_names(run_dir)
    for number in range(7):
        (run_dir / f"other-{number}").unlink()
    server = start(model(), stand_ins={}, TMPDIR="/tmp")

    assert server.wait_exit() == 3
    assert (
        server.wait_for("model_failed")["reason"] == "cannot be launched: No space left on device"
    )
