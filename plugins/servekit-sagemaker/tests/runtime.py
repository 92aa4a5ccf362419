# SPDX-License-Identifier: Apache-2.0
"""Stands between boto3 and a container, as the runtime of SageMaker does."""

import json
import struct
import threading
import zlib
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Runtime"]

PREFIX = "x-amzn-sagemaker-"
OK = 200
FORWARDED = ("content-type", "accept")


class Runtime:
    """Answers boto3's ``sagemaker-runtime`` at a port of its own, until ``stop``."""

    def __init__(self, container, models=None):
        """Forward to *container*.

        :param models: of a multi-model endpoint: from ``TargetModel`` to its directory.
        """
        self.container, self.models = container, models or {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {}))
        self._server.RequestHandlerClass.runtime = self
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def invoke(self, headers, body):
        """Return status, headers and body of the container."""
        kept = {
            name: value
            for name, value in headers.items()
            if name.lower() in FORWARDED or name.lower().startswith(PREFIX)
        }
        if accept := headers.get("X-Amzn-SageMaker-Accept"):  # for response streams
            kept["Accept"] = accept
        target = headers.get("X-Amzn-SageMaker-Target-Model")
        path = f"/models/{self._loaded(target)}/invoke" if target else "/invocations"
        return self.container.send("POST", path, body, **kept)

    def _loaded(self, target):
        """Return the name of the model *target*, which the container has then loaded."""
        name = md5(target.encode(), usedforsecurity=False).hexdigest()
        if self.container.send("GET", f"/models/{name}")[0] != OK:
            asked = {"model_name": name, "url": str(self.models[target])}
            status, told = self.container.invoke(asked, "/models")
            assert status == OK, told
        return name


class Handler(BaseHTTPRequestHandler):
    """One request of boto3."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, answer = self.runtime.invoke(self.headers, body)
        if status != OK:
            self._fail(status, answer)
        elif self.path.endswith("-response-stream"):
            kind = headers["Content-Type"]
            self._answer(payload_part(answer), {f"{PREFIX}content-type": kind}, EVENTS)
        else:
            own = {name: text for name, text in headers.items() if name.lower().startswith(PREFIX)}
            self._answer(answer, own, headers["Content-Type"])

    def _fail(self, status, answer):
        told = {
            "Message": f"Received error ({status}) from primary",
            "OriginalStatusCode": status,
            "OriginalMessage": answer.decode(),
        }
        error = {"x-amzn-errortype": "ModelError"}
        self._answer(json.dumps(told).encode(), error, "application/json", 424)

    def _answer(self, body, headers, content_type, status=OK):
        self.send_response(status)
        for name, value in {**headers, "Content-Type": content_type}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Be quiet."""


EVENTS = "application/vnd.amazon.eventstream"


def payload_part(body):
    """Return *body* as one event of the encoding that AWS has for streams."""
    headers = b"".join(
        struct.pack(">B", len(name)) + name + struct.pack(">BH", 7, len(value)) + value
        for name, value in (
            (b":message-type", b"event"),
            (b":event-type", b"PayloadPart"),
            (b":content-type", b"application/octet-stream"),
        )
    )
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))
