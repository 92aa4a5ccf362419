# SPDX-License-Identifier: Apache-2.0
"""Runs a command as the container of a pod is run: another user, and almost nothing to write to.

Everything is in a mount namespace of the command, and gone with it.
"""

import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from tests.processes import free_port

WAIT_S = 60.0
USER = 1_000_720_000  #: as OpenShift chooses one: it has no entry in /etc/passwd
GROUP = 0
BIN = Path(sys.executable).parent
#: $1: the files for /mnt/models; $2: a directory that users may not enter; $3: what they need in it
SCRIPT = f"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
if [ -n "$2" ]; then
    mkdir /mnt/hidden && mount --bind "$2" /mnt/hidden
    mount -t tmpfs -o mode=755 tmpfs "$2"
    mkdir -p "$3" && mount --bind "/mnt/hidden/${{3#"$2"}}" "$3"
    umount /mnt/hidden && rmdir /mnt/hidden
fi
if [ -L "$1" ]; then
    cp --no-dereference "$1" /mnt/models
else
    mkdir /mnt/models && mount --bind "$1" /mnt/models
fi
mount -o remount,bind,ro=recursive /
mount -t tmpfs -o mode=1777 tmpfs /tmp
shift 3
cd /
exec setpriv --reuid {USER} --regid {GROUP} --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all "$@"
"""


def can_run_pods() -> bool:
    """Whether this user may make a mount namespace."""
    try:
        done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return os.geteuid() == 0 and done.returncode == 0


needs_pods = pytest.mark.skipif(
    not can_run_pods(), reason="only root makes file systems for a process"
)


class Pod:
    """The container of a pod: ``servekit``, with nothing but *environment*."""

    def __init__(
        self, models: Path, *arguments: str, has_network: bool = False, **environment: str
    ) -> None:
        """Start it.

        :param models: what is at ``/mnt/models``: a directory, or a link.
        :param has_network: the pod has its own, so it can listen at any port; ``run_beside`` is
            then the only way to ask it.
        :param environment: the variables, beside a ``PATH``.
        """
        given = {"PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin", **environment}
        if not has_network:
            self.port = free_port()
            given.setdefault("SERVEKIT_PORT", str(self.port))
        spaces, first = ("-mn", "ip link set lo up\n") if has_network else ("-m", "")
        self.process = subprocess.Popen(
            ["unshare", spaces, "sh", "-c", first + SCRIPT, "pod", str(models), *entered(),
             "servekit", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=given,
        )  # fmt: skip
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()

    def run_beside(self, *command: str, timeout_s: float = WAIT_S) -> str:
        """Run *command* in the network of the pod, and return what it prints."""
        done = subprocess.run(
            ["nsenter", "--net", "--target", str(self.process.pid), *command],
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stderr}\nthe pod:\n{self.output}"
        return done.stdout

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str) -> str:
        """Return the first line with *text*."""
        deadline = monotonic() + WAIT_S
        with self._said:
            while not (found := [line for line in self.lines if text in line]):
                is_over = self.process.poll() is not None and not self._reader.is_alive()
                assert monotonic() < deadline, f"no {text!r} in time:\n{self.output}"
                assert not is_over, f"no {text!r}, and it has ended:\n{self.output}"
                self._said.wait(0.5)
        return found[0]

    def listening(self) -> "Pod":
        """Wait until it accepts connections."""
        return self.wait_until(lambda: self.ask("/ping/live")[0] == 200, "it does not listen")

    def ready(self) -> "Pod":
        """Wait until all models can be predicted with."""
        return self.wait_until(lambda: self.ask("/ping")[0] == 200, "it is not ready")

    def wait_until(self, condition: Callable[[], bool], otherwise: str) -> "Pod":
        """Wait until *condition* holds; *otherwise* is what is wrong if it never does."""
        deadline, pause = monotonic() + WAIT_S, threading.Event()
        while not condition():
            assert monotonic() < deadline, f"{otherwise}:\n{self.output}"
            assert self.process.poll() is None, f"it has ended:\n{self.output}"
            pause.wait(0.05)
        return self

    def ask(self, path: str, body: bytes | None = None, **fields: str) -> tuple[int, bytes]:
        """Return status and body of a GET, or of a POST with *body*; 0 if nothing listens."""
        headers = {"Content-Type": "application/json", **fields}
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, body, headers), timeout=WAIT_S
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except urllib.error.URLError:
            return 0, b""

    def __enter__(self) -> "Pod":
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> int:
        """End it as a kubelet does; return the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(WAIT_S)
            self.process.stdout.close()


def entered() -> tuple[str, str]:
    """Return the directory above this Python that others may not enter, and the Python's own."""
    prefix = Path(sys.base_prefix).resolve()
    closed = [place for place in prefix.parents if not place.stat().st_mode & 0o001]
    return (str(closed[-1]), str(prefix)) if closed else ("", "")
