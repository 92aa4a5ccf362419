# SPDX-License-Identifier: Apache-2.0
"""A worker at the process edge: boots as its model's ``options.act`` says, predicts nothing."""

import argparse
import json
import os
import socket
import sys
import time

from servekit.ipc.channel import ChannelClosed, FrameReader, encode_frame
from servekit.ipc.control import BootFailed, Launch, Ready, Stop
from servekit.ipc.table import Interface
from servekit.system.parent_death import die_with_parent

parser = argparse.ArgumentParser()
parser.add_argument("label")
parser.add_argument("--parent", type=int)
parser.add_argument("--control", type=int)
parser.add_argument("--listener", type=int)
args = parser.parse_args()
die_with_parent(args.parent)
control = socket.socket(fileno=args.control)
reader = FrameReader(control, Launch | Stop)


def wait_for_message():
    while not (messages := reader.read()):
        pass
    return messages[0]


launch = wait_for_message()
options = json.loads(launch.manifest).get("options", {})
act = options.get("act", "")
if act == "crash":
    sys.stderr.write("no weights\n")
    os._exit(7)
if act == "refuse":
    control.sendall(encode_frame(BootFailed("RuntimeError: no weights (service.py:3)")))
    sys.exit(3)
if act == "slow":
    time.sleep(0.2)
if act == "hang":
    time.sleep(600)
control.sendall(encode_frame(Ready(Interface(), 0.01)))
if act == "crash later":
    time.sleep(0.2)
    os._exit(9)
if act == "deaf":
    control.close()
    time.sleep(600)
try:
    wait_for_message()
    if act == "stubborn":
        time.sleep(600)
except (ChannelClosed, OSError):
    sys.exit(1)
