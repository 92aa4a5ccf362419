# SPDX-License-Identifier: Apache-2.0
"""The model that a body names is found wherever the member stands."""

import json

import pytest
from servekit_openai.model_name import find_name
from servekit_openai.proxy.service import named

from servekit.errors import RequestError

LARGE = "x" * 100_000
NESTED = {"model": "nested", "more": [{"model": "deeper"}]}


def body(*members):
    return json.dumps(dict(members)).encode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(body(("model", "chat")), id="alone"),
        pytest.param(body(("model", "chat"), ("input", LARGE)), id="first"),
        pytest.param(body(("input", LARGE), ("model", "chat")), id="last"),
        pytest.param(body(("a", NESTED), ("input", LARGE), ("model", "chat")), id="nested before"),
        pytest.param(body(("model", "chat"), ("input", LARGE), ("a", NESTED)), id="nested behind"),
        pytest.param(
            body(("a", NESTED), ("input", LARGE), ("model", "chat"), ("b", NESTED)), id="between"
        ),
        pytest.param(
            body(("input", LARGE), ("model", "chat"), ("tools", LARGE)), id="in the middle"
        ),
        pytest.param(
            body(("a", '"model": "text", '), ("input", LARGE), ("model", "chat")), id="text"
        ),
        pytest.param(
            body(("input", LARGE + '"model": "text"'), ("model", "chat")), id="end of text"
        ),
        pytest.param(body(("input", LARGE + "\\"), ("model", "chat")), id="behind a backslash"),
        pytest.param(body(("in", '"model'), ("input", LARGE), ("model", "chat")), id="quotes"),
        pytest.param(body(('"model', "text"), ("input", LARGE), ("model", "chat")), id="in a name"),
        pytest.param(b'{"model" \n:\t"chat" , "input": "%b"}' % LARGE.encode(), id="spaces"),
        pytest.param(
            b'{"mod\\u0065l": "ch\\u0061t", "input": "%b"}' % LARGE.encode(), id="escapes"
        ),
        pytest.param(
            body(*((f"a{at}", NESTED) for at in range(9)), ("model", "chat"), ("input", LARGE)),
            id="behind many others",
        ),
    ],
)
@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_names(text, kind):
    assert find_name(kind(text)) == "chat"


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"1", b"{}", b'{"model": 1}', b'{"model": null}', b"\xff", b"[" * 100_000,
        body(("a", NESTED)), body(("a", NESTED), ("input", LARGE)),
        b'{"input": "%b", "model": "chat"' % LARGE.encode(),
    ],
)  # fmt: skip
def test_bodies_without_a_name(text):
    with pytest.raises(RequestError):
        find_name(text)


def test_the_model_of_a_body_is_replaced_and_nothing_else():
    assert named(b'{"n": 1.50, "model": "chat", "a": {"model": "b"}}', "engine") == (
        b'{"n":1.50,"model":"engine","a":{"model": "b"}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"{", id="cut short"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"\xff": 1, "model": "chat"}', id="a name that is not UTF-8"),
        pytest.param(b'{"model": "chat", "a": ' + b"[" * 100_000, id="deep"),
    ],
)
def test_a_body_that_cannot_be_read_is_left_to_the_engine(text):
    assert named(text, "engine") == text
