# SPDX-License-Identifier: Apache-2.0
"""A front-end at the process edge: says that it is ready, and leaves when told to.

``FRONT_END_GATE`` names a file that it waits for, if set.
"""

import argparse
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.ipc.control import FrontEndReady, TableTaken
from servekit.ipc.table import TableUpdate
from servekit.system.parent_death import die_with_parent

parser = argparse.ArgumentParser()
parser.add_argument("--run-dir", type=Path)
parser.add_argument("--listener", type=int, nargs="+")
parser.add_argument("--manage", type=int, nargs="*")
parser.add_argument("--counters", type=int)
parser.add_argument("--parent", type=int)
args = parser.parse_args()
die_with_parent(args.parent)
act = os.environ.get("FRONT_END_ACT", "")
if act == "broken":
    sys.exit("no gevent here")
signal.signal(signal.SIGTERM, signal.SIG_IGN if act == "stubborn" else lambda *_: sys.exit(0))
while (gate := os.environ.get("FRONT_END_GATE")) and not Path(gate).exists():
    time.sleep(0.01)
control = socket.socket(socket.AF_UNIX)
control.connect(str(args.run_dir / "control.sock"))
control.sendall(encode_frame(FrontEndReady(os.getpid())))
reader = FrameReader(control, TableUpdate)
with suppress(ChannelClosed, OSError):
    while True:
        for update in reader.read():
            if update.confirm:
                control.sendall(encode_frame(TableTaken(update.confirm)))
time.sleep(1)
