# SPDX-License-Identifier: Apache-2.0
"""Which request targets reach a model."""

import pytest

from servekit.frontend.router import Router, path_of

PATHS = {
    b"/a/predict": b"/a/predict",
    b"/a/predict?x=1": b"/a/predict",
    b"/%61/predict": b"/a/predict",
    b"http://host:80/a/predict?x": b"/a/predict",
    b"HTTP://host": b"/",
    b"*": b"*",
    b"/a%2Fpredict": b"/a/predict",
}


@pytest.mark.parametrize(("target", "path"), PATHS.items())
def test_path_of(target, path):
    assert path_of(target) == path


@pytest.mark.parametrize(
    ("method", "target", "is_found"),
    [
        (b"POST", b"/a/predict", True),
        (b"POST", b"/a/predict?q", True),
        (b"GET", b"/a/predict", False),
        (b"POST", b"/a/predict/", False),
        (b"POST", b"/b/predict", False),
        (b"POST", b"/../a/predict", False),
        (b"POST", b"/%2e%2e/predict", False),
        (b"POST", b"/a%00/predict", False),
        (b"POST", b"", False),
    ],
)
def test_find(method, target, is_found):
    router = Router()
    router.replace({"a": "the batcher"})

    assert (router.find(method, target) == "the batcher") is is_found
