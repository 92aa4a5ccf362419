# SPDX-License-Identifier: Apache-2.0
"""What a worker may do: as which user, with how much memory, with how many descriptors."""

import http.client
import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SERVICE = """
import os, resource
from pathlib import Path
from servekit import Service

def read(path):
    try:
        return Path(path).read_text()
    except OSError as error:
        return error.strerror

DOES = {
    "who": lambda: [os.getuid(), os.getgid(), sorted(os.getgroups()), os.environ["HOME"]],
    "shadow": lambda: read("/etc/shadow"),
    "here": lambda: read(Path(__file__).parent / "weights.txt"),
    "write": lambda: os.access(Path(__file__).parent, os.W_OK),
    "eat": lambda: len(bytearray(1 << 30)),
    "files": lambda: [os.open("/dev/null", os.O_RDONLY) for _ in range(300)],
    "limits": lambda: [resource.getrlimit(resource.RLIMIT_NOFILE)[1]],
}

def kill(pid):
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.strerror

def do(act):
    if act.startswith("/"):
        return read(act)
    if act.startswith("eat "):
        return len(bytearray(int(act[4:]) << 20))
    if act.startswith("x"):
        return act
    return kill(int(act[5:])) if act.startswith("kill ") else DOES[act]()

class S(Service):
    def predict(self, batch):
        return [do(act) for act in batch]
"""


@pytest.fixture
def serve(start, model):
    """Start a real server of one model, or of the archive made of it; return what asks it."""

    def serve_model(*flags, archive=None):
        directory = model()
        (directory / "service.py").write_text(SERVICE)
        (directory / "weights.txt").write_text("weights")
        if archive:
            build = [
                sys.executable,
                "-m",
                "servekit_archiver.cli",
                "build",
                directory,
                "-o",
                archive,
            ]
            subprocess.run(build, check=True, capture_output=True)
        server = start(archive or directory, *flags, stand_ins={}, SHOWN=sys.base_prefix)
        url = server.wait_for("serving")["url"]
        return server, lambda act: post(url.removeprefix("http://"), act)

    return serve_model


def post(address, act, name="digits"):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", f"/{name}/predict", json.dumps(act), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("prediction")
    finally:
        connection.close()


# ---------------------------------------------------------------- user

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts others' processes")


@pytest.fixture
def open_place():
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="sk") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@is_root
def test_worker_of_another_user_reads_its_archive_and_nothing_of_ours(serve, open_place):
    nobody = pwd.getpwnam("nobody")
    flags = ("--worker-user", "nobody", "--cache-dir", open_place / "cache")
    server, ask = serve(*flags, archive=open_place / "digits.mar")
    (own_cache,) = (open_place / "cache").iterdir()

    who = [nobody.pw_uid, nobody.pw_gid]
    groups = sorted(set(os.getgrouplist("nobody", nobody.pw_gid)))
    assert ask("who") == (200, [*who, groups, nobody.pw_dir])
    assert ask("here") == (200, "weights")
    assert ask("shadow") == (200, "Permission denied")
    assert ask("write") == (200, False)
    assert own_cache.stat().st_mode & 0o777 == 0o710
    server.signal(15)
    assert server.wait_exit() == 0


@is_root
def test_models_of_users_of_their_own_cannot_reach_one_another(start, model, open_place):
    directory = model()
    (directory / "service.py").write_text(SERVICE)
    archive = open_place / "digits.mar"
    build = [sys.executable, "-m", "servekit_archiver.cli", "build", directory, "-o", archive]
    subprocess.run(build, check=True, capture_output=True)
    flags = ("--worker-user", "60001-60009", "--cache-dir", open_place / "cache")
    server = start(f"one={archive}", f"two={archive}", *flags, stand_ins={}, SHOWN=sys.base_prefix)
    address = server.wait_for("serving")["url"].removeprefix("http://")
    pid = {name: server.wait_for("worker_ready", model=name)["pid"] for name in ("one", "two")}
    place = Path(f"/proc/{pid['two']}/cwd").readlink()

    assert post(address, "who", "one") == (200, [60001, 60001, [], "/nonexistent"])
    assert post(address, "who", "two") == (200, [60002, 60002, [], "/nonexistent"])
    for path in (f"/proc/{pid['two']}/environ", f"/proc/{pid['two']}/mem", place / "service.py"):
        assert post(address, str(path), "one") == (200, "Permission denied")
    assert post(address, f"kill {pid['two']}", "one") == (200, "Operation not permitted")
    os.kill(pid["one"], 9)
    server.wait_for("worker_ready", model="one", generation=2)
    assert post(address, "who", "one")[1][0] == 60001


@is_root
def test_decrypted_files_of_one_model_are_hidden_from_another(start, model, open_place):
    pytest.importorskip("servekit_encryption")
    directory, archive, key = model(), open_place / "digits.mar", open_place / "key"
    (directory / "service.py").write_text(SERVICE)
    (directory / "weights.txt").write_text("weights")
    key.write_text("ab" * 32)
    for command in (["build", directory, "-o", archive], ["encrypt", archive, "--key-file", key]):
        done = [sys.executable, "-m", "servekit_archiver.cli", *command]
        subprocess.run(done, check=True, capture_output=True)
    archive.unlink()
    flags = ("--worker-user", "60001-60009", "--archive-keys", key, "--cache-dir", open_place / "c")
    models = [f"{name}={archive}.enc" for name in ("one", "two")]
    server = start(*models, *flags, stand_ins={}, SHOWN=sys.base_prefix)
    address = server.wait_for("serving")["url"].removeprefix("http://")
    pid = server.wait_for("worker_ready", model="two")["pid"]
    place = Path(f"/proc/{pid}/cwd").readlink()

    assert place.is_relative_to("/dev/shm")
    assert post(address, "here", "one") == post(address, "here", "two") == (200, "weights")
    assert post(address, str(place / "weights.txt"), "two") == (200, "weights")
    assert post(address, str(place / "weights.txt"), "one") == (200, "Permission denied")


@is_root
def test_range_of_users_that_is_too_small_is_refused(start, model):
    server = start(f"one={model()}", f"two={model('other')}", "--worker-user", "60001-60001")

    assert server.wait_exit() == 3
    assert server.messages() == ["worker_user: 60001-60001 is too small for 2 models"]


@is_root
def test_killed_worker_of_another_user_is_replaced(serve, open_place):
    flags = ("--worker-user", "nobody", "--cache-dir", open_place / "cache")
    server, ask = serve(*flags, archive=open_place / "digits.mar")
    os.kill(server.wait_for("worker_ready")["pid"], 9)
    server.wait_for("worker_ready", generation=2)

    assert ask("here") == (200, "weights")


@is_root
def test_what_the_user_cannot_read_is_named(start, model, tmp_path):
    tmp_path.chmod(0o700)
    server = start(model(), "--worker-user", "nobody", stand_ins={}, SHOWN=sys.base_prefix)

    assert server.wait_exit() == 3
    reason = f"worker_user: nobody cannot read {tmp_path}/digits"
    assert server.wait_for("model_failed")["reason"] == reason


@is_root
def test_unknown_user_is_refused(start, model):
    server = start(model(), "--worker-user", "no-such-user")

    assert server.wait_exit() == 3
    assert server.messages() == ["worker_user: unknown user 'no-such-user' on this machine"]


@is_root
def test_only_root_can_choose_a_user(start, model, tmp_path, run_dir):
    run_dir.chmod(0o777)
    for place in (tmp_path, *tmp_path.parents):
        if not place.stat().st_mode & 0o001:  # nobody comes through
            place.chmod(0o755)
    directory = model()
    flags = ("--worker-user", "daemon")
    server = start(
        directory, *flags, SHOWN=sys.base_prefix, RUN_AS=str(pwd.getpwnam("nobody").pw_uid)
    )

    assert server.wait_exit() == 3
    assert server.messages() == ["worker_user: only root can start processes of another user"]


# ---------------------------------------------------------------- limits


def test_service_out_of_memory_answers_507_and_stays(serve):
    server, ask = serve("--worker-memory", "512MiB", "--arena", "64MiB")
    before = ask("limits")

    assert ask("eat") == (507, None)
    assert ask("limits") == before
    assert not [event for event in server.events if event["event"] == "worker_exited"]


def test_the_arenas_do_not_widen_the_limit(serve):
    server, ask = serve("--worker-memory", "300MiB", "--large-body", "64KiB")

    assert ask("eat 290") == (507, None)
    assert ask("eat 1") == (200, 1 << 20)
    assert ask("x" * 200_000) == (200, "x" * 200_000)  # by shared memory, both ways
    assert ask("eat 290") == (507, None)
    assert not [event for event in server.events if event["event"] == "worker_exited"]


def test_a_limit_that_no_worker_can_keep_is_refused_with_the_reason(start, model):
    server = start(model(), "--worker-memory", "10MiB", stand_ins={})

    assert server.wait_exit() == 3
    reason = server.wait_for("worker_exited")["reason"]
    expected = (
        r"worker_memory: 10MiB is less than the \d+ MiB "
        "that a worker has before its service is loaded"
    )
    assert re.fullmatch(expected, reason)


def test_service_out_of_descriptors_fails_alone(serve):
    server, ask = serve("--worker-files", "100")

    assert ask("limits") == (200, [100])
    assert ask("files") == (500, None)
    assert not [event for event in server.events if event["event"] == "worker_exited"]
