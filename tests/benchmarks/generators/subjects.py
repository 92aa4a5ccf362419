# SPDX-License-Identifier: Apache-2.0
"""The servers that the generators load, and the request that all of them send."""

import json
import struct
from dataclasses import dataclass
from typing import Final

from tests.benchmarks.answers import Request
from tests.benchmarks.cases import SMALL, SUM
from tests.benchmarks.oip import SignedServekit
from tests.benchmarks.servers import Nginx, Servekit, Server
from tests.benchmarks.triton import read_binary

TENSOR: Final = struct.pack("<4f", *SMALL)
INFER: Final = json.dumps(
    {
        "id": "",
        "inputs": [
            {
                "name": "x",
                "datatype": "FP32",
                "shape": [1, 4],
                "parameters": {"binary_data_size": len(TENSOR)},
            }
        ],
        "outputs": [{"name": "prediction", "parameters": {"binary_data": True}}],
    },
    separators=(",", ":"),
).encode()


class InferenceServekit(SignedServekit):
    """servekit with the request that perf_analyzer sends: JSON, then a binary tensor."""

    key = "oip"
    title = "servekit, request of perf_analyzer"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server, and the request for it."""

    server: Server
    request: Request


def subjects() -> list[Subject]:
    """Return them: one that costs almost nothing, and servekit by two routes."""
    infer = Request(
        path="/v2/models/sum/infer",
        content_type="application/octet-stream",
        body=INFER + TENSOR,
        expected=sum(SMALL),
        read=read_binary,
        headers=(("Inference-Header-Content-Length", str(len(INFER))),),
    )
    nginx, servekit = Nginx(), Servekit()
    return [
        Subject(nginx, nginx.request(SUM)),
        Subject(servekit, servekit.request(SUM)),
        Subject(InferenceServekit(), infer),
    ]
