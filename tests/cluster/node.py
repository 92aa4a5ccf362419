# SPDX-License-Identifier: Apache-2.0
"""The machine as a node: a network of its pods, and their control groups."""

import itertools
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

GROUPS = Path("/sys/fs/cgroup")
PROGRAMS = ("ip", "unshare", "nsenter", "setpriv", "mount", "chroot")
#: for tests of networks (RFC 2544): no address of it is used by anything else
NETWORK = "198.18"


def why_not() -> str:
    """Return why this machine cannot be a node; "" if it can."""
    if os.geteuid() != 0:
        return "a node needs root: namespaces, mounts, control groups"
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    try:
        memory_group(f"servekit-probe-{os.getpid()}").rmdir()
    except OSError as error:
        return f"no control group for memory can be made: {error}"
    tried = ["unshare", "--mount", "--pid", "--fork", "--net", "--cgroup", "true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"namespaces cannot be made: {done.stderr.strip()}"
    bridge = f"skp{os.getpid()}"
    made = ["ip", "link", "add", bridge, "type", "bridge"]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no bridge can be made: {done.stderr.strip()}"
    subprocess.run(["ip", "link", "del", bridge], check=True)
    return ""


def memory_group(name: str) -> Path:
    """Make a control group for memory, below that of this process.

    :raises OSError: there is no such controller, or it is not ours.
    """
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):  # version 1
            group = GROUPS / "memory" / path.lstrip("/") / name
            break
        if number == "0":
            unified = GROUPS / path.lstrip("/")
            group = unified / name
    else:  # version 2
        (unified / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    return group


def set_limit(group: Path, limit_bytes: int | None) -> None:
    """Limit the memory of the processes in *group*."""
    is_first = (group / "memory.limit_in_bytes").exists()
    if limit_bytes is not None:
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        (group / name).write_text(str(limit_bytes))


def remove_group(group: Path) -> None:
    """Remove *group*, once the kernel has reaped the last process of it."""
    deadline = monotonic() + 60.0
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            if monotonic() > deadline:
                raise
            sleep(0.02)


def ip(*lines: str) -> None:
    """Run commands of ``ip``."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True,
                   capture_output=True)  # fmt: skip


class Network:
    """A bridge; each pod has a network namespace with an address on it."""

    def __init__(self) -> None:
        """Take a network that no other node of this machine has.

        The bridge has an address of its own: that of a pod would change when the pod is removed,
        and the others would send to the old one for half a minute.
        """
        for number in range(1, 255):
            self.name = f"sk{number}"
            add = f"ip link add {self.name} address 02:00:00:00:00:{number:02x} type bridge"
            if subprocess.run(add.split(), capture_output=True, check=False).returncode == 0:
                break
        self._prefix = f"{NETWORK}.{number}"
        self._numbers = itertools.count(10)
        ip(f"addr add {self._prefix}.1/24 dev {self.name}", f"link set {self.name} up")

    def add(self) -> tuple[str, str]:
        """Return the namespace and the address of a new pod."""
        number = next(self._numbers)
        name, address = f"{self.name}-{number}", f"{self._prefix}.{number}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        ip(
            f"link add {name} type veth peer name eth0 netns {name}",
            f"link set {name} master {self.name} up",
        )
        for line in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
            subprocess.run(["ip", "-n", name, *line.split()], check=True)
        return name, address

    def remove(self, name: str) -> None:
        """Remove a pod's namespace, and with it its address."""
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["ip", "link", "del", name], check=True, capture_output=True)
        subprocess.run(["ip", "netns", "del", name], check=True)

    def close(self) -> None:
        """Remove the bridge."""
        subprocess.run(["ip", "link", "del", self.name], check=True)
