# SPDX-License-Identifier: Apache-2.0
"""Which request targets reach a model."""

import pytest

from servekit.errors import RequestError
from servekit.frontend.http.targets import in_origin_form, path_of
from servekit.frontend.routing.router import Router

PATHS = {
    b"/a/predict": b"/a/predict",
    b"/a/predict?x=1": b"/a/predict",
    b"/%61/predict": b"/a/predict",
    b"/a%2Fpredict": b"/a%2Fpredict",
    b"/a%2fpredict/%61?%62": b"/a%2Fpredict/a",
    b"/": b"/",
    b"/?x": b"/",
    b"*": b"*",
}


@pytest.mark.parametrize(("target", "path"), PATHS.items())
def test_path_of(target, path):
    assert path_of(target) == path


FORMS = {
    ("GET", "/a"): ("/a", ""),
    ("GET", "//a"): ("//a", ""),
    ("GET", "/a?x=%zz"): ("/a?x=%zz", ""),
    ("GET", "http://host:80/a/predict?x"): ("/a/predict?x", "host:80"),
    ("GET", "HTTP://host"): ("/", "host"),
    ("GET", "https://host?x"): ("/?x", "host"),
    ("OPTIONS", "*"): ("*", ""),
}


@pytest.mark.parametrize(("given", "expected"), FORMS.items())
def test_target_in_origin_form(given, expected):
    found = in_origin_form(*(part.encode() for part in given))

    assert found == tuple(part.encode() for part in expected)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param(b"GET", b"*", id="asterisk is for OPTIONS"),
        pytest.param(b"GET", b"a/predict", id="no leading slash"),
        pytest.param(b"GET", b"ftp://host/a", id="another scheme"),
        pytest.param(b"GET", b"http://user@host/a", id="user in the authority"),
        pytest.param(b"GET", b"http:///a", id="no authority"),
        pytest.param(b"GET", b"/a#b", id="fragment"),
        pytest.param(b"GET", b"/%zz", id="no hexadecimal digits"),
        pytest.param(b"GET", b"/a%2", id="percent sign cut short"),
        pytest.param(b"GET", b"/a%00/predict", id="NUL"),
        pytest.param(b"GET", b"/a%0d%0aX:1/predict", id="line end"),
        pytest.param(b"GET", b"/%7f", id="DEL"),
    ],
)
def test_target_without_a_form_is_refused(method, target):
    with pytest.raises(RequestError):
        in_origin_form(method, target)


@pytest.mark.parametrize(
    ("method", "target", "is_found"),
    [
        (b"POST", b"/a/predict", True),
        (b"POST", b"/a/predict?q", True),
        (b"POST", b"/%61/predict", True),
        (b"GET", b"/a/predict", False),
        (b"POST", b"/a/predict/", False),
        (b"POST", b"/b/predict", False),
        (b"POST", b"/../a/predict", False),
        (b"POST", b"/%2e%2e/predict", False),
        (b"POST", b"/a%2fpredict", False),
        (b"POST", b"/a%2Fb/predict", False),
        (b"POST", b"//a/predict", False),
        (b"POST", b"", False),
    ],
)
def test_find(method, target, is_found):
    router = Router()
    router.replace({b"/a/predict": "the batcher"}, {})

    assert (router.find(method, target, {}) == "the batcher") is is_found


@pytest.mark.parametrize(
    ("method", "target", "found"),
    [
        (b"GET", b"/a/ticks", "by the query"),
        (b"GET", b"/%61/ticks?to=1", "by the query"),
        (b"POST", b"/a/ticks", "the batcher"),
        (b"HEAD", b"/a/ticks", None),
        (b"GET", b"/a/predict", None),
    ],
)
def test_only_some_paths_answer_get(method, target, found):
    router = Router()
    routes = {b"/a/predict": "the batcher", b"/a/ticks": "the batcher"}
    router.replace(routes, {}, {b"/a/ticks": "by the query"})

    assert router.find(method, target, {}) == found
