# SPDX-License-Identifier: Apache-2.0
"""What may be marked as an endpoint; ``tests/e2e/test_pipelines.py`` asks some."""

import pytest

from servekit import Service, endpoint
from servekit.service.endpoints import Endpoint, endpoints_of


def test_marked_methods_are_found_where_they_answer():
    class Marked(Service):
        @endpoint("one")
        def first(self, batch):
            """Marked."""

        @endpoint(path="/v1/two")
        def two(self, batch):
            """Marked."""

        def other(self, batch):
            """Not marked."""

    found = {marked for marked, _ in endpoints_of(Marked)}

    assert found == {Endpoint("one", ""), Endpoint("two", "/v1/two")}


def test_a_mark_without_parentheses_is_refused():
    with pytest.raises(TypeError, match=r"write @endpoint\(\), with parentheses"):

        class Marked(Service):
            @endpoint
            def first(self, batch):
                """No endpoint, which nobody would notice."""


@pytest.mark.parametrize("name", ["predict", "ping", "a b", "1", "-", "x" * 65])
def test_a_name_that_cannot_be_is_refused(name):
    with pytest.raises(ValueError, match="is not a valid name, or is reserved"):
        endpoint(name)(lambda self, batch: batch)


@pytest.mark.parametrize("path", ["v1", "/", "/a/", "/a b", "/.x", "/a?b"])
def test_a_path_that_cannot_be_is_refused(path):
    with pytest.raises(ValueError, match="is not a path such as"):
        endpoint("a", path=path)(lambda self, batch: batch)


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        ("raw", r"stream: 'raw' is not a dict"),
        ({"done": "x"}, "stream: unknown key 'done'; known: end, raw, field"),
        ({"raw": 1}, "stream: raw: 1 is not a bool"),
        ({"end": "a\nb"}, "stream: end: has several lines"),
    ],
)
def test_a_stream_that_cannot_be_is_refused(stream, problem):
    with pytest.raises(ValueError, match=problem):
        endpoint("a", stream=stream)(lambda self, batch: batch)


def test_a_media_type_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="endpoint a: 'json' is not a media type"):
        endpoint("a", media_type="json")(lambda self, batch: batch)
