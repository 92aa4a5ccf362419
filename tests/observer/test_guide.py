# SPDX-License-Identifier: Apache-2.0
"""The example of the guide does what it says."""

import http.server
import json
import re
import threading
import types
from pathlib import Path
from typing import ClassVar

from servekit.extension import WorkerExited
from servekit.observer.subscriber import subscribers_of
from servekit.plugins import create_plugin_manager

GUIDE = (Path(__file__).parents[2] / "docs/writing-a-plugin.md").read_text(encoding="utf-8")
CRASH = WorkerExited(
    time_s=0.0, model="m", version="1", stage="", replica=2, generation=1, pid=7, exit_code=-11,
    signal="SIGSEGV", cause="signal", reason="Segmentation fault", lived_s=1.0, served_s=0.5,
    restart_s=0.0, has_given_up=False, request_ids=["a", "b"],
)  # fmt: skip


class Chat(http.server.BaseHTTPRequestHandler):
    """Notes what is posted."""

    posted: ClassVar = []

    def do_POST(self):
        self.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_the_example_posts_a_crash(monkeypatch):
    section = GUIDE.partition("### worker_exited(event)")[2].partition("\n### ")[0]
    plugin = types.ModuleType("example")
    exec(re.search(r"```python\n(.*?)```", section, re.DOTALL)[1], vars(plugin))
    server = http.server.HTTPServer(("127.0.0.1", 0), Chat)
    monkeypatch.setenv("CHAT_URL", f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    (subscriber,) = subscribers_of(create_plugin_manager(plugin, discover=False))
    subscriber.offer("worker_exited", CRASH)
    subscriber.end(10)
    server.shutdown()
    server.server_close()
    thread.join(10)

    assert Chat.posted == [{"text": "m/2 ended: Segmentation fault, with a, b"}]
