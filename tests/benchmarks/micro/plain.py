# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.benchmarks.micro.plain``: a request in the worker, by protocol and natively.

Microseconds for each request of a batch: the sum of four numbers, in JSON and as raw bytes, by the
Open Inference Protocol, and at the native route of the same model. In turns; best of several
rounds.
"""

import timeit
from typing import Any

from servekit import Service
from servekit.ipc.batches import Item, ProtocolCall
from servekit.ipc.control import Launch
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble
from servekit.worker.codecs.table import CodecTable
from servekit.worker.envelopes.batch import EnvelopedBatch
from servekit.worker.envelopes.table import EnvelopeTable

ROUNDS, REQUESTS, LONGEST = 15, 960, 32
JSON = b"application/json"
NATIVE = b'{"x":[1.5,2.5,3.5,4.5]}'
TENSOR = b'{"name":"x","shape":[1,4],"datatype":"FP32","data":[1.5,2.5,3.5,4.5]}'
RAW, BINARY = bytes(16), b"application/octet-stream"
CALL = ProtocolCall("servekit_oip.envelope:OipRequests", {"verb": "infer"})
RAW_CALL = ProtocolCall(CALL.envelope, {"verb": "infer", "length": "0"})
SIGNATURE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
    "outputs": [{"name": "y", "dtype": "float64", "shape": []}],
}


class Sum(Service):
    """Answers the sum of each row."""

    signature = SIGNATURE

    def predict(self, batch: Any) -> Any:
        """Return the sums."""
        return batch["x"].sum(axis=1)


def main() -> None:
    """Print the time for each size of a batch."""
    made = assemble(Sum(), CodecTable(create_plugin_manager(discover=False)))
    launch = Launch("", b'{"name":"sum"}', 0, 1, 1, 1, LONGEST, 1 << 30, 0, 1 << 16)
    table = EnvelopeTable(made.interface, made.codecs, launch)
    enveloped = EnvelopedBatch(table, made.methods, LONGEST)
    native = Item(NATIVE, JSON, b"", "r", 1e12)
    sent = Item(b'{"inputs":[%b]}' % TENSOR, JSON, b"", "r", 1e12, protocol=CALL)
    raw_native = Item(RAW, BINARY, b"", "r", 1e12)
    raw_sent = Item(RAW, BINARY, b"", "r", 1e12, protocol=RAW_CALL)
    ways = {
        "native": (made.predictor.answer, native),
        "OIP": (enveloped.answer, sent),
        "native, raw": (made.predictor.answer, raw_native),
        "OIP, raw": (enveloped.answer, raw_sent),
    }
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for size in (1, 8, LONGEST):
            for name, (answer, item) in ways.items():
                items, count = [item] * size, REQUESTS // size
                taken = timeit.timeit(lambda: answer(items, 1, None), number=count)  # noqa: B023
                key = name, size
                best[key] = min(best.get(key, taken), taken)
    for (name, size), seconds in best.items():
        print(f"{name:11} in batches of {size:2}: {seconds / REQUESTS * 1e6:6.2f} us")


if __name__ == "__main__":
    main()
