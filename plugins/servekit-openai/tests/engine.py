# SPDX-License-Identifier: Apache-2.0
"""An engine that speaks just enough of OpenAI's API, to stand behind a proxy."""

import json
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeEngine(ThreadingHTTPServer):
    """Answers what the last message, the prompt or the input of a request says."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.port = self.server_address[1]
        self.seen = []  #: path, headers and body of each request
        self.connections = 0
        self.left = threading.Event()  #: a client left in the middle of a stream
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self):
        self.shutdown()
        self.server_close()
        for handler in list(handlers):
            handler.close_connection = True
            with suppress(OSError):
                handler.connection.shutdown(socket.SHUT_RDWR)


#: connections that are open
handlers: set["Handler"] = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1
        handlers.add(self)

    def finish(self):
        handlers.discard(self)
        super().finish()

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer(200, b'{"object": "list", "data": []}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))
        asked = json.loads(body)
        text = asked["messages"][-1]["content"] if "messages" in asked else asked.get("input")
        if text == "busy":
            self._answer(
                429, b'{"error": {"message": "full", "type": "x", "code": 9}}', ("Retry-After", "7")
            )
        elif asked.get("stream"):
            self._stream(text)
        else:
            self._answer(200, b'{ "verbatim" : [1.50, "%b"] }' % str(text).encode())

    def _answer(self, status, body, *fields):
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), *fields):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for number in range(1_000_000 if text == "forever" else 3):
                self._chunk(b'data: {"id": "e", "choices": [], "n":  %d}\n\n' % number)
                if text == "break" and number == 1:
                    self.close_connection = True
                    return
                time.sleep(0.01)
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
        except OSError:
            self.server.left.set()
            self.close_connection = True

    def _chunk(self, piece):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))


if __name__ == "__main__":
    FakeEngine(int(sys.argv[1]))
    threading.Event().wait()
