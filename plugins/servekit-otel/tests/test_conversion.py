# SPDX-License-Identifier: Apache-2.0
"""Events become the spans of a trace."""

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind, StatusCode
from servekit_otel.conversion import Converter

from servekit.extension import Span

from .events import BATCH, EVENT, NOT_SAMPLED, SECOND, TRACES


def spans_of(**changes):
    found = Converter(Resource({})).spans_of(msgspec.structs.replace(EVENT, **changes))
    return {each.name: each for each in found}


def tree(spans):
    """Return the name of each span and of the one around it."""
    names = {each.context.span_id: each.name for each in spans.values()}
    return {name: names.get(each.parent.span_id) for name, each in spans.items() if each.parent}


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

    assert found.kind is SpanKind.SERVER
    assert f"{found.parent.span_id:x}" == "cccccccccccccccc"
    assert f"{found.context.trace_id:032x}" == TRACES[0]
    assert (found.start_time, found.end_time) == (1_000_000_000_000, 1_000_035_000_000)
    assert found.attributes["http.response.status_code"] == 200
    assert found.attributes["servekit.model"] == "m"


def test_without_a_client_in_the_trace_the_request_is_its_root():
    assert spans_of(parent_span="")["POST /m/predict"].parent is None


def test_the_batch_is_a_span_of_its_first_sampled_member_with_links_to_all():
    first, second = spans_of(), spans_of(traceparent=SECOND, request_id="c")
    batch = first["batch"]

    assert "batch" not in second
    assert [each.context.span_id for each in batch.links] == [
        0x1234567812345678,
        0xF067AA0BA902B7,
        0xB7AD6B7169203331,
    ]
    assert batch.attributes["servekit.batch.size"] == 3
    for each in (first, second):
        (link,) = each["worker"].links
        assert link.context.trace_id == batch.context.trace_id
        assert link.context.span_id == batch.context.span_id


def test_the_worker_knows_the_ids_of_the_first_member():
    first, second = spans_of(), spans_of(traceparent=SECOND)

    assert first["worker"].context.span_id == 0x1111111111111111
    assert first["tokenize"].context.span_id == 0x2222222222222222
    assert second["tokenize"].context.span_id != 0x2222222222222222
    assert tree(second)["GET"] == "tokenize"


def test_spans_of_a_service_have_their_kind_and_error():
    found = spans_of()["GET"]

    assert found.kind is SpanKind.CLIENT
    assert found.status.status_code is StatusCode.ERROR
    assert found.attributes == {"error.type": "Timeout"}
    assert spans_of()["tokenize"].attributes == {"tokens": 12}


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (200, StatusCode.UNSET, None),
        (422, StatusCode.UNSET, None),
        (503, StatusCode.ERROR, "503"),
        (0, StatusCode.UNSET, "disconnected"),
    ],
)
def test_an_error_of_the_server_is_one(status, code, error):
    found = spans_of(status=status)["POST /m/predict"]

    assert found.status.status_code is code
    assert found.attributes.get("error.type") == error
    assert found.attributes.get("http.response.status_code") == (status or None)


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
    found = Converter(Resource({})).spans_of(
        msgspec.structs.replace(EVENT, batches=batches, spans=spans)
    )
    parents = {each.context.span_id: each.name for each in found}

    steps = [each for each in found if each.name == "predict"]
    assert [parents[each.parent.span_id] for each in steps] == ["worker one", "worker two"]
    assert len({each.context.span_id for each in found}) == len(found)
