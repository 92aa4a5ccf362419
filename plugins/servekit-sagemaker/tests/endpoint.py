# SPDX-License-Identifier: Apache-2.0
"""A server with the paths of SageMaker, whichever it is."""

import threading
from http.client import HTTPConnection
from time import monotonic

WAIT_S = 240.0


class Endpoint:
    """A process, the port that it listens on, and what it has printed."""

    def wait_ready(self):
        """Ask ``/ping`` until it is 200, as SageMaker does."""
        deadline, pause = monotonic() + WAIT_S, threading.Event()
        while not self._is_ready():
            assert self.process.poll() is None, self.output
            assert monotonic() < deadline, self.output
            pause.wait(0.02)
        return self

    def _is_ready(self):
        try:
            return self.send("GET", "/ping")[0] == 200
        except OSError:
            return False

    def send(self, method, path, body=None, content_type="", **headers):
        """Return status, headers and body."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields |= {"Content-Type": content_type} if content_type else {}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()
