# SPDX-License-Identifier: Apache-2.0
"""Serves a model with Ray Serve, and updates it in place. Runs in: Ray's own environment.

Each line of standard input is a version; one line of JSON answers when its update is over.
"""

import json
import sys
import traceback

import ray
from ray import serve
from starlette.requests import Request

PORT = int(sys.argv[1])


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})
class Model:
    """Answers its version and its input."""

    def __init__(self, version: str) -> None:
        if "broken" in version:
            raise RuntimeError("no weights")
        self.version = version

    async def __call__(self, request: Request) -> list[object]:
        """Answer one request."""
        return [self.version, await request.json()]


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
serve.start(http_options={"host": "127.0.0.1", "port": PORT})
for line in sys.stdin:
    version, error = line.strip(), ""
    try:
        serve.run(Model.bind(version), name="digits", route_prefix="/digits/predict")
    except Exception:
        error = traceback.format_exc().strip().splitlines()[-1]
    print(json.dumps({"version": version, "error": error}), flush=True)
serve.shutdown()
ray.shutdown()
