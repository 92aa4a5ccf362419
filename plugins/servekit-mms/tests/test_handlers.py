# SPDX-License-Identifier: Apache-2.0
"""Handlers of 1.x: what they are given, and how they answer."""

import logging

import pytest
from servekit_mms.services import service_for

from servekit import Context, InputError, Request, Response
from servekit.errors import BootError
from servekit.types import File

from .conftest import write_handler

MODULE = """
calls = []
def handle(data, context):
    calls.append(data)
    return None if data is None else [repr(sorted(each.items())) for each in data]
"""
CLASS = """
from mms.service import PredictionException


class Handler:
    def initialize(self, context):
        self.found = context.system_properties["model_dir"] + "/service.py"

    def handle(self, data, context):
        answers = []
        for idx, parts in enumerate(data):
            wish = str(parts.get("wish"))
            if wish == "exception":
                raise PredictionException("as asked", 418)
            if wish == "status":
                context.set_response_status(code=404, idx=idx)
            if wish == "type":
                context.set_response_content_type(idx, "application/xml")
            if wish == "header":
                context.set_response_header(idx, "x-model", context.model_name)
            if wish == "headers":
                answers.append(context.get_all_request_header(idx))
                continue
            context.metrics.add_counter("Wishes", 1, idx)
            context.metrics.add_time("Time taken", 1.5, idx, "ms")
            found = {"wish": wish, "id": context.get_request_id(idx)}
            answers.append(found if wish == "json" else wish)
        return answers
"""


def load(directory, requests=(), **options):
    service = service_for(directory)()
    service.load(
        Context(
            model="a", version="1.0", directory=directory, replica=0, max_batch_size=4, threads=1,
            options=options, logger=logging.getLogger("a"), read_requests=lambda: requests,
        )
    )  # fmt: skip
    return service


@pytest.fixture
def load_here(no_mms, monkeypatch, tmp_path):
    """Return what loads a handler whose code is given; its directory is on ``sys.path``."""

    def load_code(code, handler="service:handle", **others):
        directory = write_handler(tmp_path / "noop", code, handler=handler)
        monkeypatch.syspath_prepend(str(directory))
        return load(directory, **others)

    return load_code


def parts(**values):
    return {name: File("", "", value.encode()) for name, value in values.items()}


@pytest.mark.parametrize(
    ("code", "handler"),
    [
        (MODULE, "service:handle"),
        (MODULE, "service.py:handle"),
        (MODULE, "service"),
        (MODULE.replace("def handle", "def answer"), "service:answer"),
        (CLASS, "service:handle"),
    ],
)
def test_a_handler_is_a_function_or_a_method(load_here, code, handler):
    assert load_here(code, handler).predict([parts(wish="a")])


def test_a_function_is_called_without_data_first(load_here):
    import sys

    load_here(MODULE)

    assert sys.modules["service"].calls == [None]


@pytest.mark.parametrize(
    "code", ["", "class A:\n    pass\n", CLASS + "class Other(Handler): pass\n"]
)
def test_a_module_without_one_is_refused(load_here, code):
    with pytest.raises(BootError, match="has no function handle, nor one class with it"):
        load_here(code)


def test_a_handler_that_needs_mxnet_is_refused_with_the_way_out(load_here):
    with pytest.raises(BootError, match="imports mxnet, which is not installed; convert"):
        load_here("import mxnet\n")


def request(content_type, body, query=(), decoded=None):
    return Request(
        content_type=content_type, buffer=body, request_id="r", decode=lambda: decoded,
        query=dict(query),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param(request("application/json", b'{"a": 1}'), {"body": {"a": 1}}, id="JSON"),
        pytest.param(request("text/plain", b"a"), {"body": "a"}, id="text"),
        pytest.param(request("", b"a"), {"body": bytearray(b"a")}, id="no type"),
        pytest.param(
            request("image/jpeg", b"a", {"q": "1"}),
            {"body": bytearray(b"a"), "q": bytearray(b"1")},
            id="a picture, and a query",
        ),
        pytest.param(
            request("application/x-www-form-urlencoded", b"a=1&b=%20"),
            {"a": bytearray(b"1"), "b": bytearray(b" ")},
            id="fields",
        ),
        pytest.param(
            request("multipart/form-data", b"", decoded={"a": File("x", "text/plain", b"1")}),
            {"a": "1"},
            id="a form",
        ),
    ],
)
def test_bodies_are_read_as_mms_reads_them(load_here, sent, expected):
    service = load_here(MODULE)
    (answer,) = service.predict([service.preprocess(sent)])

    assert answer.output == repr(sorted(expected.items()))
    assert answer.content_type == "text/plain"


def test_one_request_that_is_not_readable_does_not_affect_the_others(load_here):
    service = load_here(MODULE)
    wrong = {"body": File("", "application/json", b"{")}
    refused, answered = service.predict([wrong, parts(a="1")])

    assert isinstance(refused, InputError)
    assert "bytearray(b'1')" in answered.output
    assert isinstance(service.predict([wrong])[0], InputError)


def test_text_is_answered_without_quotes(load_here):
    (answer,) = load_here(CLASS).predict(wishes("a"))

    assert answer == Response("a", content_type="text/plain")


def wishes(*texts):
    return [{"wish": File("", "text/plain", text.encode())} for text in texts]


def test_each_response_has_what_the_handler_set_for_it(load_here):
    requests = [request("", b"") for _ in range(4)]
    service = load_here(CLASS, requests=requests)
    status, media_type, header, plain = service.predict(wishes("status", "type", "header", "json"))

    assert (status.status, status.output) == (404, "status")
    assert media_type.content_type == "application/xml"
    assert header.headers == {"x-model": "noop"}
    assert plain == {"wish": "json", "id": "r"}


def test_an_exception_with_a_status_is_the_answer_of_the_batch(load_here):
    service = load_here(CLASS, requests=[request("", b"")] * 2)
    answers = service.predict(wishes("exception", "text"))

    assert [each.status for each in answers] == [418, 418]
    assert answers[0].output["message"] == "as asked"


def test_too_few_answers_are_left_to_the_server(load_here):
    assert load_here("def handle(data, context):\n    return []\n").predict(wishes("a")) == []


def test_options_of_0x_are_refused(load_here):
    with pytest.raises(BootError, match="for archives of MMS 0"):
        load_here(MODULE, service="other.py")
