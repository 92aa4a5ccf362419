# SPDX-License-Identifier: Apache-2.0
"""The image of the rendered manifests is built by buildah, and run by podman without any rights."""

import http.client
import json
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from .stage import wait_until

NETAVARK = "/usr/lib/podman/netavark"  #: Debian's podman does not start without it
PROGRAMS = ("buildah", "podman", NETAVARK, "crun", "mmdebstrap")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]
BUILD_S = 900.0
DRAIN_DELAY_S = 3  #: a request that is sent at SIGTERM arrives within it
BASE = "localhost/servekit-base"
PACKAGES = "python3,python3-venv,ca-certificates"
#: crun refuses a machine with both versions of control groups; podman is to see the first alone
ONE_VERSION = "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified"


def run(*command, timeout_s=BUILD_S):
    """Return what a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def storage():
    """Options of buildah and podman: images are kept in a directory that goes with the tests."""
    directory = Path(tempfile.mkdtemp(prefix="servekit-images-", dir="/var/tmp"))
    options = [f"--root={directory}/root", f"--runroot={directory}/run", "--storage-driver=overlay"]
    yield options
    with suppress(AssertionError):
        run("umount", f"{directory}/root/overlay")
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def base(storage, tmp_path_factory):
    """A base image of the packages of this Debian: no registry is asked."""
    release = dict(re.findall(r"(\w+)=\"?([^\"\n]*)", Path("/etc/os-release").read_text()))
    archive = tmp_path_factory.mktemp("base") / "base.tar"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
    done = subprocess.run(
        [*command, release["VERSION_CODENAME"], str(archive)],
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"the packages of Debian cannot be had: {done.stderr.strip()[-500:]}")
    container = run("buildah", *storage, "from", "scratch").strip()
    run("buildah", *storage, "add", container, str(archive), "/")
    run("buildah", *storage, "commit", "--disable-compression", "--rm", container, BASE)
    archive.unlink()
    return BASE


@pytest.fixture(scope="module")
def pip_options(tmp_path_factory):
    """Mounts that give the build the index that pip is configured with here."""
    listed = run(sys.executable, "-m", "pip", "config", "list")
    values = dict(re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    file = tmp_path_factory.mktemp("pip") / "pip.conf"
    lines = [f"{name} = {value}\n" for name, value in values.items()]
    file.write_text("".join(["[global]\n", *lines]))
    words = [word for value in values.values() for word in value.split()]
    local = {word for word in words if word.startswith("/") and Path(word).exists()}
    indexes = {word.removeprefix("file://") for word in words if word.startswith("file://")}
    local |= {str(Path(index).parent) for index in indexes}  # the files are beside the index
    mounts = {str(file): "/etc/pip.conf", **{path: path for path in sorted(local)}}
    return [f"--volume={source}:{path}:ro" for source, path in mounts.items()]


@pytest.fixture(scope="module")
def image(rendered, storage, base, pip_options):
    """The image, built from the rendered context."""
    command = ["buildah", *storage, "bud", "--isolation=chroot", "--network=host"]
    command += ["--format=docker", f"--build-arg=BASE={base}", *pip_options]
    run(*command, "--tag", rendered.template.image, str(rendered.output / "image"))
    return rendered.template.image


@pytest.fixture
def container(image, storage, tmp_path):
    """A container with an arbitrary user id: its process, its port and its log."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = [f"--ulimit=nofile={files}:{files}", "--ulimit=nproc=4096:4096"]  # else it raises them
    command = ["podman", *storage, "--cgroup-manager=cgroupfs", "run", "--rm", "--network=host"]
    command += ["--cgroups=disabled", "--pull=never", "--read-only", "--tmpfs=/tmp"]
    command += ["--no-healthcheck"]  # it would need systemd
    command += ["--user=12345:0", "--cap-drop=ALL", "--security-opt=no-new-privileges", *limits]
    env = {"HOST": "127.0.0.1", "PORT": port, "DRAIN_DELAY": DRAIN_DELAY_S}
    command += [*(f"--env=SERVEKIT_{name}={value}" for name, value in env.items()), image]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", f'{ONE_VERSION}; exec "$@"', "sh", *command],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    yield process, port, tmp_path / "log"
    if process.poll() is None:
        process.terminate()
        process.wait(60)


def ask(port, path, body=None):
    """Return status and content of one request; 0 if nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET" if body is None else "POST", path, body,
                           {"Content-Type": "application/json"})  # fmt: skip
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except ConnectionRefusedError:
        return 0, ""
    finally:
        connection.close()


def test_the_image_serves_without_rights_and_drains(container):
    process, port, log = container
    wait_until(lambda: ask(port, "/ping")[0] == 200 or process.poll() is not None, log.read_text())
    assert process.poll() is None, log.read_text()
    found = ask(port, "/digits/predict", "7")
    assert (found[0], json.loads(found[1])["prediction"]["n"]) == (200, 7)
    assert "servekit_build_info{" in ask(port, "/metrics")[1]

    last = []
    slow = threading.Thread(target=lambda: last.append(ask(port, "/digits/predict", "99")))
    slow.start()
    process.terminate()  # podman passes it on
    status = process.wait(60)
    slow.join()

    assert [(each[0], json.loads(each[1])["prediction"]["n"]) for each in last] == [(200, 99)]
    assert status == 0, log.read_text()
