# SPDX-License-Identifier: Apache-2.0
"""How handlers are found, what they see, and what becomes of a batch."""

import json
import logging
import sys
from base64 import b64encode
from textwrap import dedent

import pytest
from servekit_torchserve.batch import HandlerCalls
from servekit_torchserve.builtin.labels import load_label_mapping, map_class_to_label
from servekit_torchserve.context import HandlerContext
from servekit_torchserve.entry import open_handler
from servekit_torchserve.handler_metrics import Dimension, HandlerMetrics, MetricTypes
from servekit_torchserve.refusals import PredictionException
from servekit_torchserve.requests import HandlerRequest, read_row
from servekit_torchserve.service_envelopes import with_envelope

from servekit.errors import BodyMalformed, BootError, InputError
from servekit.service.metrics import Metrics

LOG = logging.getLogger("test")
MODEL = {"modelName": "m", "modelVersion": "1.0"}


@pytest.fixture
def context():
    metrics = HandlerMetrics(Metrics())
    return HandlerContext("m", {"model": MODEL}, {"model_dir": ""}, metrics, {"a": 1})


@pytest.fixture
def load(tmp_path, monkeypatch, context):
    """Return what opens the handler with some code, in a file of the name ``own_handler``."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_handler", raising=False)

    def open_it(code, handler="own_handler.py"):
        file = handler.partition(":")[0].removesuffix(".py")
        (tmp_path / f"{file}.py").write_text(dedent(code))
        return open_handler(tmp_path, handler, context)

    yield open_it
    sys.modules.pop("own_handler", None)


FUNCTION = """
    seen = []

    def handle(data, context):
        seen.append(data)
        return [data, context.model_name, len(seen)]

    def other(data, context):
        return "other"
"""
CLASSES = """
    class Base:
        def initialize(self, context):
            self.config = context.model_yaml_config

        def handle(self, data, context):
            return [type(self).__name__, self.config]

    class Own(Base):
        pass
"""


def test_a_function_is_called_without_data_first(load, context):
    assert load(FUNCTION)([1], context) == [[1], "m", 2]


@pytest.mark.parametrize("handler", ["own_handler:other", "own_handler.py:other"])
def test_a_function_can_be_named(load, context, handler):
    assert load(FUNCTION, handler)([1], context) == "other"


def test_of_several_classes_the_last_derived_one_is_taken(load, context):
    assert load(CLASSES)([1], context) == ["Own", {"a": 1}]


def test_a_handler_may_have_the_name_of_another_module(load, context):
    assert load(FUNCTION, "numbers.py")([1], context)[1] == "m"
    assert not hasattr(sys.modules["numbers"], "handle")


@pytest.mark.parametrize(
    ("code", "handler", "reason"),
    [
        ("x = 1", "own_handler", "found: none"),
        ("class A:\n handle = 1\nclass B:\n handle = 1", "own_handler", "found: A, B"),
        ("x = 1", "own_handler:f", "has no function f"),
    ],
)
def test_a_module_without_a_handler_is_refused(load, code, handler, reason):
    with pytest.raises(BootError, match=reason):
        load(code, handler)


def test_a_name_that_is_neither_a_file_nor_built_in_is_refused(tmp_path, context):
    with pytest.raises(BootError, match="vllm_handler is not a file of the archive"):
        open_handler(tmp_path, "vllm_handler", context)


# ------------------------------------------------------------ batches


def requests(*values, **headers):
    return [HandlerRequest({"body": value}, headers, str(value)) for value in values]


def answer(handle, context, batch, *, isolates=True):
    calls = HandlerCalls(handle, context, LOG, isolates=isolates)
    return calls.answer(batch)


def squares(data, context):
    if any(row["body"] == "refuse" for row in data):
        raise PredictionException("no", 418)
    if any(row["body"] == "input" for row in data):
        raise InputError("too narrow")
    return [row["body"] ** 2 for row in data]


def test_a_request_that_fails_its_batch_fails_alone(context):
    found = answer(squares, context, requests(2, "x", "refuse", "input", 3))

    assert [each.status for each in found] == [200, 503, 418, 422, 200]
    assert (found[0].body, found[4].body) == (b"4", b"9")


def test_a_batch_fails_as_a_whole_if_it_must_not_be_tried_again(context):
    found = answer(squares, context, requests(2, "x", 3), isolates=False)

    assert [each.status for each in found] == [503] * 3


def test_explanations_are_never_in_one_call_with_predictions(context):
    sizes = []

    def handle(data, context):
        sizes.append((len(data), context.get_request_header(0, "Explain")))
        return [row["body"] for row in data]

    batch = [
        *requests("a", explain="False"),
        *requests("b", explain="True"),
        *requests("c", explain="False"),
    ]
    found = answer(handle, context, batch)

    assert sizes == [(2, "False"), (1, "True")]
    assert [each.body for each in found] == [b"a", b"b", b"c"]


def test_each_request_has_its_own_head(context):
    def handle(data, context):
        context.set_all_response_status(201, "Created")
        context.set_response_status(202, idx=1)
        context.set_response_header(0, "x-a", "1")
        context.set_response_content_type(1, "text/csv")
        assert context.get_response_status(0) == (201, "Created")
        assert context.get_response_headers(0) == {"x-a": "1"}
        assert context.get_response_content_type(1) == "text/csv"
        assert [context.get_request_id(index) for index in range(3)] == ["1", "2", None]
        assert context.get_all_request_header(0)["x-KEY"] == "v"
        assert context.get_sequence_id(0) == "s"
        return ["a", "b"]

    first, second = answer(
        handle, context, requests(1, 2, **{"x-key": "v", "ts_request_sequence_id": "s"})
    )

    assert (first.status, first.headers) == (201, {"x-a": "1"})
    assert (second.status, second.media_type) == (202, "text/csv")


def test_a_head_that_no_response_can_have_is_an_error(context):
    def handle(data, context):
        context.set_response_header(0, "x\n", "1")
        return ["a"]

    (found,) = answer(handle, context, requests(1))

    assert found.native().status == 500


def test_a_handler_may_take_its_batch_apart(load, context):
    code = """
        from servekit_torchserve.micro_batches import MicroBatching

        class Parts:
            def __init__(self):
                self.handle = MicroBatching(self)

            def initialize(self, context):
                self.handle.parallelism = {"preprocess": 1, "inference": 2}
                self.handle.micro_batch_size = 2
                self.sizes = []

            def preprocess(self, data):
                return [row["body"] for row in data]

            def inference(self, data):
                return [value * 10 for value in data]

            def postprocess(self, data):
                return [f"{value} of {len(data)}" for value in data]
    """
    handle = load(code)
    rows = [{"body": value} for value in range(5)]

    assert handle(rows, context) == ["0 of 2", "10 of 2", "20 of 2", "30 of 2", "40 of 1"]
    handle.shutdown()


# ------------------------------------------------------------ envelopes


def through(name, context, body, handle=lambda data, context: data):
    found = with_envelope(name, handle)([{"body": body}], context)
    return found[0]


def test_the_body_envelope_takes_the_content_out(context):
    assert through("body", context, [1, 2]) == [1, 2]


def test_the_json_envelope_joins_the_instances_of_all_requests(context):
    def handle(data, context):
        return [each * 10 for each in data]

    rows = [{"body": {"instances": [1, 2]}}, {"data": {"instances": [3]}}]

    assert with_envelope("json", handle)(rows, context) == [
        {"predictions": [10, 20]},
        {"predictions": [30]},
    ]


def test_base64_in_instances_is_bytes(context):
    encoded = {"b64": b64encode(b"\xff").decode()}
    body = {"instances": [{"data": encoded}, {"other": encoded}, encoded]}

    assert through("json", context, body) == {
        "predictions": [{"data": b"\xff"}, {"other": encoded}, encoded]
    }


def test_the_kserve_envelope_answers_explanations(context):
    context.begin(["1"], [{"explain": "True"}])

    assert through("kserve", context, {"instances": [1]}) == {"explanations": [1]}


def test_the_second_kserve_envelope_describes_outputs(context):
    context.begin(["7"], [{}])
    inputs = [{"name": "x", "data": [1]}]
    found = through("kservev2", context, {"inputs": inputs}, lambda *_: [[[1.5, 2.5]]])

    assert found == {
        "id": "7",
        "model_name": "m",
        "model_version": "1.0",
        "outputs": [{"name": "x", "datatype": "FP64", "data": [[1.5, 2.5]], "shape": [1, 2]}],
    }


@pytest.mark.parametrize("name", ["json", "kserve", "kservev2"])
def test_a_body_that_an_envelope_cannot_read_is_refused(context, name):
    with pytest.raises(PredictionException) as refused:
        through(name, context, {"x": 1})

    assert refused.value.error_code == 400


# ------------------------------------------------------------ rows, labels, metrics


def test_nothing_is_decoded_if_the_options_say_so():
    assert read_row("application/json", b"1", decodes=False) == {"body": bytearray(b"1")}


def test_a_query_comes_before_the_body():
    assert read_row("text/plain", b"x", "a=1") == {"a": bytearray(b"1"), "body": "x"}


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=Y"])
def test_a_form_that_is_none_is_refused(content_type):
    with pytest.raises(BodyMalformed):
        read_row(content_type, b"--X\r\n")


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ({"0": "cat"}, {"0": "cat"}),
        ({"0": ["n1", "cat"]}, {"0": "cat"}),
        ({"object_type_names": ["cat", "dog"]}, {"0": "cat", "1": "dog"}),
    ],
)
def test_names_of_classes(tmp_path, table, names):
    (tmp_path / "a.json").write_text(json.dumps(table))

    assert load_label_mapping(tmp_path / "a.json") == names


def test_labels_and_probabilities():
    assert load_label_mapping("/nowhere") is None
    assert map_class_to_label([[0.9, 0.1]]) == [{"0": 0.9, "1": 0.1}]
    assert map_class_to_label([[0.9]], {"3": "cat"}, [[3]]) == [{"cat": 0.9}]


def test_metrics_of_any_name_are_series_of_three():
    metrics = Metrics()
    handler = HandlerMetrics(metrics)
    handler.add_counter("rows", 2)
    handler.add_time("HandlerTime", 1.5, idx=0, unit="ms")
    handler.add_size("Size", 3, dimensions=[Dimension("level", "model")])
    handler.add_percent("Share", 50)
    handler.add_error("Oops", "why")
    handler.add_metric("Latency", 4, "ms", metric_type=MetricTypes.HISTOGRAM)
    kept = handler.add_metric_to_cache("kept", "count", ["a"], MetricTypes.COUNTER)
    kept.add_or_update(3, ["x"])
    shown = bytes(metrics.memory)

    assert handler.get_metric("kept") is kept
    for name in (b"rows", b"HandlerTime", b"level=model", b"Share", b"Oops", b"Latency", b"kept"):
        assert name in shown
