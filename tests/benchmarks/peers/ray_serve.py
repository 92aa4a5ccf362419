# SPDX-License-Identifier: Apache-2.0
"""The versions of ``swaps``, served by Ray Serve. Runs in Ray's own environment.

A driver that starts a small cluster, deploys version 1, and then each version that is posted to
its control port; the response says why one is not served, in Ray's words. SIGTERM ends everything.
"""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import ray
from ray import serve
from starlette.responses import JSONResponse

REPLICAS = 2
OBJECT_STORE_BYTES = 80_000_000
RETRIES = 3  #: of a constructor that raises; by default Ray tries 20 times


@serve.deployment(
    num_replicas=REPLICAS,
    max_ongoing_requests=100,  # with the default of 5 it does not recover from one stall
    max_constructor_retry_count=RETRIES,
    ray_actor_options={"num_cpus": 0.25},  # so that old and new replicas fit beside each other
    graceful_shutdown_wait_loop_s=0.5,
    health_check_period_s=1,
)
class Digits:
    """Says twice which version it is: once as constructed, once as configured."""

    def __init__(self, version, way):
        self.version = version
        if way == "load":
            raise RuntimeError("these weights do not fit")
        if way == "exit":
            os._exit(1)
        if way == "requirement":
            import a_module_that_nobody_has  # noqa: F401
        if way in ("digest", "truncated"):
            compile("class Digits(Serv", "service.py", "exec")

    def reconfigure(self, config):
        self.configured = config["version"]

    async def __call__(self, request):
        number = json.loads(await request.body())
        said = {"id": number, "loaded": self.version, "packed": self.configured}
        return JSONResponse({"prediction": said})


def deploy(version, way):
    """Replace what is served, and wait until Ray says that it is."""
    application = Digits.options(user_config={"version": version}).bind(version, way)
    serve.run(application, name="digits", route_prefix="/digits")


def reason_of():
    """Return the last line of what Ray says about the deployment."""
    application = serve.status().applications["digits"]
    return application.deployments["Digits"].message.strip().rpartition("\n")[2]


class Control(BaseHTTPRequestHandler):
    """Deploys what is posted."""

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = ""
        try:
            deploy(order["name"], order["way"])
        except Exception as error:
            said = reason_of() or f"{type(error).__name__}: {error}"
        content = said.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        _temp_dir=os.environ["BENCH_TEMP"],
    )
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["BENCH_PORT"])})
        deploy("1", "")
        control = HTTPServer(("127.0.0.1", int(os.environ["BENCH_CONTROL_PORT"])), Control)
        print("BENCH SERVES", flush=True)
        control.serve_forever()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
