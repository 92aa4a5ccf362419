# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.observer``: notifies plugins. Started by the supervisor."""

import argparse
import json
import logging
import os
import socket
import sys
from pathlib import Path
from threading import Event
from time import monotonic

from servekit.observer.receiver import EventReceiver, export_metrics
from servekit.observer.subscriber import subscribers_of
from servekit.observer.view import ObserverView
from servekit.plugins import create_plugin_manager, implemented, leave_out, read_plugin_settings
from servekit.settings.shared import read_settings
from servekit.system.parent_death import die_with_parent

__all__ = ["main"]

INTERVAL_S = 10.0  #: between two calls of ``export_metrics``
NICE = 10  #: whatever plugins do with events, the processes that serve go first
END_S = 2.0  #: for the plugins to take the last events


class JsonFormatter(logging.Formatter):
    """A JSON object for each record; the supervisor adds who said it and when."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        shown = {"level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            shown["traceback"] = self.formatException(record.exc_info)
        return json.dumps(shown)


def main() -> None:
    """Pass events on until the supervisor ends."""
    parser = argparse.ArgumentParser(prog="python -m servekit.observer")
    parser.add_argument("--parent", type=int, required=True, help="pid of the supervisor")
    parser.add_argument("--listener", type=int, required=True, help="descriptor of the socket")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--manage", type=Path, required=True, help="path of the private socket")
    parser.add_argument("--log-format", default="text", choices=["text", "json"])
    parsed = parser.parse_args()
    die_with_parent(parsed.parent)
    os.nice(NICE)
    handler = logging.StreamHandler()
    is_json = parsed.log_format == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    listener = socket.socket(fileno=parsed.listener)
    listener.set_inheritable(False)
    manager = create_plugin_manager()
    settings = read_settings(parsed.run_dir)
    own_settings = read_plugin_settings(settings, manager)
    leave_out(manager, own_settings)
    subscribers, end = subscribers_of(manager), Event()
    observer = ObserverView(settings, parsed.run_dir, own_settings)
    for subscriber in subscribers:
        subscriber.offer("observer_started", observer)
    if implemented(manager.hook, ["export_metrics"]):
        export_metrics(subscribers, parsed.manage, INTERVAL_S, end)
    EventReceiver(listener, subscribers).run()
    end.set()
    deadline = monotonic() + END_S
    for subscriber in subscribers:
        subscriber.offer("observer_stopping", observer)
    for subscriber in subscribers:
        subscriber.end(max(0.0, deadline - monotonic()))
    sys.stderr.flush()
    os._exit(0)  # a plugin that hangs must not keep the process


if __name__ == "__main__":
    main()
