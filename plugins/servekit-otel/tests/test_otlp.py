# SPDX-License-Identifier: Apache-2.0
"""What protobuf reads is what was written."""

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from servekit_otel.otlp import (
    CHILD,
    END,
    KINDS,
    PARENT_ID,
    ROOT,
    SPAN_ID,
    START,
    TRACE_ID,
    RequestFrame,
    SpanForm,
    TextAttribute,
    attributes_of,
    link,
)

from .collector import values_of

TEXT = st.text(max_size=5000)
NAME = st.text(min_size=1, max_size=200)
ID = st.integers(1, 2**64 - 1)
TRACE = st.binary(min_size=16, max_size=16)
VALUE = st.one_of(
    TEXT, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary()
)
ATTRIBUTES = st.dictionaries(NAME, VALUE, max_size=20)


def written(*pieces, resource=None, schema=""):
    """Return the request with spans made of *pieces*, as protobuf reads it."""
    frame = RequestFrame(resource or {}, schema, ("servekit", "1.2"))
    return ExportTraceServiceRequest.FromString(frame.around(b"".join(pieces)))


def spans_in(request):
    (resource_spans,) = request.resource_spans
    (scope_spans,) = resource_spans.scope_spans
    return list(scope_spans.spans)


@given(
    trace_id=TRACE, ids=st.tuples(ID, ID), times=st.tuples(ID, ID), name=NAME,
    attributes=ATTRIBUTES, kind=st.sampled_from(list(KINDS.items())), is_failed=st.booleans(),
    is_remote=st.booleans(),
)  # fmt: skip
def test_a_span(trace_id, ids, times, name, attributes, kind, is_failed, is_remote):
    form = SpanForm.of(
        name, attributes_of(attributes), kind=kind[1], is_failed=is_failed,
        is_parent_remote=is_remote,
    )  # fmt: skip
    moments = START, times[0], END, times[1]
    fixed = CHILD.pack(TRACE_ID, trace_id, SPAN_ID, ids[0], *moments, PARENT_ID, ids[1])
    (found,) = spans_in(written(form.head, fixed, form.tail))

    assert found.trace_id == trace_id
    assert found.span_id == ids[0].to_bytes(8, "little")
    assert found.parent_span_id == ids[1].to_bytes(8, "little")
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == times
    assert found.name == name
    assert Span.SpanKind.Name(found.kind) == f"SPAN_KIND_{kind[0].upper()}"
    assert values_of(found) == attributes
    assert found.status.code == (2 if is_failed else 0)
    assert found.flags == (0x301 if is_remote else 0x101)


@given(name=NAME, text=TEXT, links=st.lists(st.tuples(TRACE, ID, st.integers(0, 255)), max_size=70))
def test_more_of_a_form_and_spans_one_after_another(name, text, links):
    form = SpanForm.of(name, fixed=ROOT)
    more = form.more(TextAttribute("own").of(text) + b"".join(link(*each) for each in links))
    fixed = ROOT.pack(TRACE_ID, b"t" * 16, SPAN_ID, 1, START, 2, END, 3)
    first, second = spans_in(written(more.head, fixed, more.tail, form.head, fixed, form.tail))

    assert (first.name, second.name) == (name, name)
    assert (first.parent_span_id, second.parent_span_id) == (b"", b"")
    assert (values_of(first), values_of(second)) == ({"own": text}, {})
    found = [(each.trace_id, each.span_id, each.flags) for each in first.links]
    assert found == [(t, i.to_bytes(8, "little"), f | 0x100) for t, i, f in links]


@given(resource=ATTRIBUTES, schema=st.sampled_from(["", "https://opentelemetry.io/schemas/1.21.0"]))
def test_the_frame(resource, schema):
    (found,) = written(resource=resource, schema=schema).resource_spans
    (scope_spans,) = found.scope_spans

    assert values_of(found.resource) == resource
    assert found.schema_url == schema
    assert (scope_spans.scope.name, scope_spans.scope.version) == ("servekit", "1.2")


def test_values_that_otlp_has_no_type_for():
    values = {"list": ["a", 1, [True]], "huge": 1 << 80, "none": None, "lone": "\ud800"}
    (found,) = written(resource=values).resource_spans
    texts = values_of(found.resource)
    elements = texts.pop("list").values

    assert (elements[0].string_value, elements[1].int_value) == ("a", 1)
    assert elements[2].array_value.values[0].bool_value
    assert texts == {"huge": str(1 << 80), "none": "None", "lone": "?"}
