# SPDX-License-Identifier: Apache-2.0
"""``servekit`` with stand-ins at the process edge, as ``STAND_INS`` (JSON) names them.

``CORES`` and ``AVAILABLE_BYTES`` stand in for the machine's. ``SHOWN`` is a directory that
every user can get at, wherever it lies; ``RUN_AS`` is who we are.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

from servekit.cli import main
from servekit.supervisor.models import registry
from servekit.supervisor.os import process
from servekit.supervisor.replicas import worker
from servekit.supervisor.server import front_end

CLONE_NEWNS = 0x20000  # unshare(2)
STAND_INS = json.loads(os.environ.get("STAND_INS", "{}"))


def python_module(module, *arguments, python=sys.executable):
    """Run a stand-in script where one is named."""
    if module in STAND_INS:
        return [python, STAND_INS[module], *arguments]
    return process.python_module(module, *arguments, python=python)


def show(directory):
    """Let every user get at *directory*: in a mount namespace of our own."""
    closed = next((p for p in reversed(directory.parents) if not p.stat().st_mode & 0o001), None)
    if closed is None:
        return
    if ctypes.CDLL(None).unshare(CLONE_NEWNS):
        sys.exit("no mount namespace here")
    aside = "/mnt"
    for arguments in (
        ("--make-rprivate", "/"),
        ("--bind", directory, aside),
        ("-t", "tmpfs", "-o", "mode=755", "tmpfs", closed),
    ):
        subprocess.run(["mount", *arguments], check=True)
    directory.mkdir(parents=True)
    subprocess.run(["mount", "--bind", aside, directory], check=True)


if shown := os.environ.get("SHOWN"):
    show(Path(shown))
if run_as := os.environ.get("RUN_AS"):
    os.setuid(int(run_as))
if cores := os.environ.get("CORES"):
    registry.usable_cores = lambda: int(cores)
if available := os.environ.get("AVAILABLE_BYTES"):
    registry.available_bytes = lambda: int(available)
front_end.python_module = worker.python_module = python_module
sys.exit(main())
