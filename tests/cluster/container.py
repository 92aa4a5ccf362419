# SPDX-License-Identifier: Apache-2.0
"""One container: a process with files, a network, a user and a control group of its own."""

import os
import shlex
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from .image import Image
from .manifests import Mount, PodTemplate
from .node import memory_group, remove_group, set_limit

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a container runs."""

    name: str
    namespace: str  #: of the network
    directory: Path  #: for its root, its volumes and its log; the container sees nothing of it
    env: dict[str, str]


class Container:
    """Runs from the start; ``exit_status`` is ``None`` until it has ended."""

    def __init__(self, template: PodTemplate, image: Image, setting: Setting) -> None:
        """Start the command of the container as the first process of its namespace."""
        self.directory = setting.directory
        self.group = memory_group(setting.name)
        set_limit(self.group, template.memory_bytes)
        self.log = self.directory / "log"
        script = self.directory / "enter.sh"
        script.write_text(_script(template, image, setting))
        enter = (
            f"echo 0 > {self.group}/cgroup.procs; exec nsenter --net=/run/netns/{setting.namespace}"
            " unshare --mount --pid --fork --kill-child --cgroup --ipc --uts --propagation private"
            f" sh {shlex.quote(str(script))}"
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "sh", "-ec", enter],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self.pid = self._first_process()

    @property
    def exit_status(self) -> int | None:
        """Its exit status, below 0 for a signal."""
        return self._process.poll()

    @property
    def peak_bytes(self) -> int:
        """The most memory that it has had."""
        names = ("memory.max_usage_in_bytes", "memory.peak")
        files = [self.group / name for name in names if (self.group / name).exists()]
        return int(files[0].read_text())

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its first process, as the runtime does."""
        if self._process.poll() is None:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop all its processes without ending them, as on a node that hangs."""
        pids = set(map(int, (self.group / "cgroup.procs").read_text().split()))
        for pid in pids - {self._process.pid}:
            os.kill(pid, signal.SIGSTOP)

    @property
    def status(self) -> dict[str, str]:
        """The user and the rights of its first process, as the kernel names them."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def writable(self, *paths: str) -> list[str]:
        """Return those of *paths* where its user can make a file."""
        user = (self.status["Uid"].split()[0], self.status["Gid"].split()[0])
        found = []
        for path in paths:
            test = f"touch {path}/probe && rm {path}/probe"
            enter = ["nsenter", f"--target={self.pid}", "--mount", f"--root=/proc/{self.pid}/root"]
            become = ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups"]
            done = subprocess.run(
                [*enter, *become, "sh", "-c", test], capture_output=True, check=False
            )
            if done.returncode == 0:
                found.append(path)
        return found

    def wait(self, timeout_s: float) -> bool:
        """Return whether it ends within *timeout_s*."""
        try:
            self._process.wait(max(0.0, timeout_s))
        except subprocess.TimeoutExpired:
            return False
        return True

    def remove(self) -> None:
        """Kill what is left, and remove its control group."""
        self.signal(signal.SIGKILL)
        self.wait(START_S)
        remove_group(self.group)

    def _first_process(self) -> int:
        """Return the child of ``unshare``, by the pid that it has here."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = monotonic() + START_S
        while self._process.poll() is None and monotonic() < deadline:
            if found := children.read_text().split():
                return int(found[0])
            sleep(0.005)
        raise AssertionError(f"the container does not start\n{self.text}")


def _script(template: PodTemplate, image: Image, setting: Setting) -> str:
    """Return what makes the root of the container and becomes its command."""
    root = setting.directory / "root"
    root.mkdir(exist_ok=True)
    lines = [f"mount -t tmpfs -o mode=755 tmpfs {root}"]
    for path, source in image.binds.items():
        lines += [f"mkdir -p {root}{path}", f"mount --bind {source} {root}{path}"]
        lines.append(f"mount -o remount,bind,ro {root}{path}")
    lines += [f"ln -s {target} {root}/{name}" for name, target in image.links.items()]
    lines += _system(root)
    for number, mount in enumerate(template.mounts):
        lines += _volume(root, mount, setting.directory / f"volume-{number}", template.fs_group)
    if template.is_read_only:
        lines.append(f"mount -o remount,bind,ro {root}")
    return "\n".join(
        ["set -e", "hostname " + setting.name, *lines, _command(template, image, setting, root)]
    )


def _system(root: Path) -> list[str]:
    """Return what mounts the file systems of the kernel."""
    lines = [f"mkdir -p {root}/proc {root}/dev {root}/sys/fs/cgroup {root}/tmp"]
    lines += [f"mount -t proc proc {root}/proc", f"mount -t tmpfs -o mode=755 tmpfs {root}/dev"]
    for name in DEVICES:
        lines += [f"touch {root}/dev/{name}", f"mount --bind /dev/{name} {root}/dev/{name}"]
    lines += [f"mkdir {root}/dev/shm", f"mount -t tmpfs -o mode=1777,size=64m tmpfs {root}/dev/shm"]
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return [*lines, f"mount -t cgroup2 -o ro cgroup2 {root}/sys/fs/cgroup"]
    return [
        *lines,
        f"mkdir -p {root}/sys/fs/cgroup/memory",
        f"mount -t cgroup -o ro,memory cgroup {root}/sys/fs/cgroup/memory",
    ]


def _volume(root: Path, mount: Mount, directory: Path, group: int | None) -> list[str]:
    directory.mkdir(exist_ok=True)
    where = f"{root}{mount.path}"
    lines = [f"mkdir -p {where}"]
    if mount.in_memory:
        size = f",size={mount.limit_bytes}" if mount.limit_bytes else ""
        lines.append(f"mount -t tmpfs -o mode=1777{size} tmpfs {where}")
    else:
        directory.chmod(0o777)
        lines.append(f"mount --bind {directory} {where}")
    if group is not None:
        lines += [f"chgrp {group} {where}", f"chmod g+rwxs {where}"]
    return lines


def _command(template: PodTemplate, image: Image, setting: Setting, root: Path) -> str:
    groups = "--clear-groups" if template.fs_group is None else f"--groups={template.fs_group}"
    args = template.args or (() if template.command else image.args)
    words = [
        *("chroot", str(root), "setpriv", f"--reuid={template.uid or image.uid}"),
        *(f"--regid={template.gid}", groups, "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "--pdeathsig=KILL", "env", "-i"),
        *(f"{name}={value}" for name, value in setting.env.items()),
        *("sh", "-c", f'cd {image.directory}; exec "$0" "$@"'),
        *(template.command or image.entrypoint),
        *args,
    ]
    return "exec " + shlex.join(_expanded(word, setting.env) for word in words)


def _expanded(word: str, env: dict[str, str]) -> str:
    """Replace ``$(NAME)``, as Kubernetes does in commands."""
    for name, value in env.items():
        word = word.replace(f"$({name})", value)
    return word
