# SPDX-License-Identifier: Apache-2.0
"""Events become the spans of a trace."""

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from servekit_otel.conversion import Converter
from servekit_otel.otlp import RequestFrame

from servekit.extension import Span

from .collector import values_of
from .events import BATCH, EVENT, NOT_SAMPLED, SECOND, SPANS, TRACES

FRAME = RequestFrame({}, "", ("servekit", "1"))


def converted(**changes):
    """Return the spans of the event with *changes*."""
    encoded = Converter().spans_of(msgspec.structs.replace(EVENT, **changes))
    if encoded is None:
        return []
    request = ExportTraceServiceRequest.FromString(FRAME.around(encoded.content))
    found = list(request.resource_spans[0].scope_spans[0].spans)
    assert len(found) == encoded.spans
    return found


def spans_of(**changes):
    return {each.name: each for each in converted(**changes)}


def tree(spans):
    """Return the name of each span and of the one around it."""
    names = {each.span_id: each.name for each in spans.values()}
    return {name: names.get(each.parent_span_id) for name, each in spans.items()}


def test_a_request_is_a_tree_of_spans():
    assert tree(spans_of()) == {
        "POST /m/predict": None,
        "queue": "POST /m/predict",
        "batch": "POST /m/predict",
        "worker": "POST /m/predict",
        "ipc": "POST /m/predict",
        "decode": "worker",
        "predict": "worker",
        "tokenize": "predict",
        "GET": "tokenize",
        "encode": "worker",
        "send": "POST /m/predict",
    }


def test_the_request_continues_the_trace_of_its_client():
    found = spans_of()["POST /m/predict"]

    assert found.kind == OtlpSpan.SPAN_KIND_SERVER
    assert found.span_id.hex() == "00f067aa0ba902b7"
    assert found.parent_span_id.hex() == "cccccccccccccccc"
    assert found.trace_id.hex() == TRACES[0]
    times = found.start_time_unix_nano, found.end_time_unix_nano
    assert times == (1_000_000_000_000, 1_000_035_000_000)
    assert values_of(found)["http.response.status_code"] == 200
    assert values_of(found)["servekit.model"] == "m"


def test_without_a_client_in_the_trace_the_request_is_its_root():
    assert spans_of(parent_span="")["POST /m/predict"].parent_span_id == b""


def test_the_batch_is_a_span_of_its_first_sampled_member_with_links_to_all():
    first, second = spans_of(), spans_of(traceparent=SECOND, request_id="c")
    batch = first["batch"]

    assert "batch" not in second
    assert [each.span_id.hex() for each in batch.links] == [
        "1234567812345678",
        "00f067aa0ba902b7",
        "b7ad6b7169203331",
    ]
    assert values_of(batch) == {
        "servekit.batch.id": "m/0.1-77-5",
        "servekit.batch.size": 3,
        "servekit.replica": 0,
        "process.pid": 77,
    }
    for each in (first, second):
        (link,) = each["worker"].links
        assert (link.trace_id, link.span_id) == (batch.trace_id, batch.span_id)


def test_the_worker_knows_the_ids_of_the_first_member():
    first, second = spans_of(), spans_of(traceparent=SECOND)

    assert first["worker"].span_id.hex() == "1111111111111111"
    assert first["tokenize"].span_id.hex() == "2222222222222222"
    assert second["tokenize"].span_id.hex() != "2222222222222222"
    assert tree(second)["GET"] == "tokenize"


def test_spans_of_a_service_have_their_kind_and_error():
    found = spans_of()["GET"]

    assert found.kind == OtlpSpan.SPAN_KIND_CLIENT
    assert found.status.code == Status.STATUS_CODE_ERROR
    assert values_of(found) == {"error.type": "Timeout"}
    assert values_of(spans_of()["tokenize"]) == {"tokens": 12}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (200, Status.STATUS_CODE_UNSET, None),
        (422, Status.STATUS_CODE_UNSET, None),
        (503, Status.STATUS_CODE_ERROR, "503"),
        (0, Status.STATUS_CODE_UNSET, "disconnected"),
    ],
)
def test_an_error_of_the_server_is_one(status, code, error):
    found = spans_of(status=status)["POST /m/predict"]

    assert found.status.code == code
    assert values_of(found).get("error.type") == error
    assert values_of(found).get("http.response.status_code") == (status or None)


@pytest.mark.parametrize("traceparent", ["", NOT_SAMPLED])
def test_a_slow_request_that_is_not_sampled_is_not_exported(traceparent):
    assert spans_of(traceparent=traceparent, reason="slow") == {}


def test_stages_have_a_worker_each():
    batches = [
        msgspec.structs.replace(BATCH, id=stage, stage=stage, span="") for stage in ("one", "two")
    ]
    spans = [
        Span(name="predict", stage="one", start_s=0.0, duration_s=0.01, batch=0),
        Span(name="predict", stage="two", start_s=0.01, duration_s=0.01, batch=1),
    ]
    found = converted(batches=batches, spans=spans)
    parents = {each.span_id: each.name for each in found}

    steps = [each for each in found if each.name == "predict"]
    assert [parents[each.parent_span_id] for each in steps] == ["worker one", "worker two"]
    assert len({each.span_id for each in found}) == len(found)


def test_a_batch_without_an_answer_takes_as_long_as_its_parts():
    spans = [each for each in SPANS if each.name == "queue"]
    found = spans_of(spans=spans)

    times = [(each.start_time_unix_nano, each.end_time_unix_nano) for each in found.values()]
    assert set(found) == {"POST /m/predict", "queue", "worker", "batch"}
    assert times[1:] == [times[1]] * 3


def test_a_member_whose_client_has_sent_nonsense_has_no_link():
    garbled = ["garbage", "00-zz", *BATCH.traceparents]
    batch = msgspec.structs.replace(BATCH, traceparents=garbled)

    assert len(spans_of(batches=[batch])["batch"].links) == 3


def test_what_is_the_same_in_many_requests_is_no_more_than_that():
    converter = Converter()
    for number in range(3):
        for status in (200, 503):
            name = f"/m{number}/predict"
            event = msgspec.structs.replace(EVENT, path=name, status=status, request_id=name)
            content = converter.spans_of(event).content
            (found, *_) = (
                ExportTraceServiceRequest.FromString(FRAME.around(content))
                .resource_spans[0].scope_spans[0].spans
            )  # fmt: skip
            values = values_of(found)
            assert found.name == f"POST {name}"
            assert (values["servekit.request_id"], values["url.path"]) == (name, name)
            assert values["http.response.status_code"] == status
