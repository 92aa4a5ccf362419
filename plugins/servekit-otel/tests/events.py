# SPDX-License-Identifier: Apache-2.0
"""An event, as a front-end sends it."""

from servekit.extension import RequestTraced, Span, TracedBatch

TRACES = ["4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"]
FIRST, SECOND = f"00-{TRACES[0]}-00f067aa0ba902b7-01", f"00-{TRACES[1]}-b7ad6b7169203331-01"
NOT_SAMPLED = f"00-{TRACES[0]}-1234567812345678-00"
BATCH = TracedBatch(
    id="m/0.1-77-5", stage="", replica=0, pid=77, size=3, request_ids=["a", "b", "c"],
    traceparents=[NOT_SAMPLED, FIRST, SECOND], span="1111111111111111",
)  # fmt: skip
SPANS = [
    Span(name="queue", start_s=0.0, duration_s=0.010, batch=0),
    Span(name="ipc", start_s=0.010, duration_s=0.001, batch=0),
    Span(name="decode", start_s=0.011, duration_s=0.001, batch=0),
    Span(name="predict", start_s=0.012, duration_s=0.020, batch=0),
    Span(
        name="tokenize", start_s=0.013, duration_s=0.005, batch=0, attributes={"tokens": 12},
        id="2222222222222222", parent="1111111111111111",
    ),
    Span(
        name="GET", start_s=0.014, duration_s=0.001, batch=0,
        attributes={"span.kind": "client", "error.type": "Timeout"},
        id="3333333333333333", parent="2222222222222222",
    ),
    Span(name="encode", start_s=0.032, duration_s=0.001, batch=0),
    Span(name="send", start_s=0.034, duration_s=0.001),
]  # fmt: skip
EVENT = RequestTraced(
    time_s=1000.0, request_id="b", traceparent=FIRST, parent_span="cccccccccccccccc", model="m",
    version="1", method="POST", path="/m/predict", status=200, reason="sampled", duration_s=0.035,
    spans=SPANS, batches=[BATCH],
)  # fmt: skip
