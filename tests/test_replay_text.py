# SPDX-License-Identifier: Apache-2.0
"""Requests as commands and as tests, whatever is in them."""

import ast
import shlex

import pytest

from servekit.extension import CrashReport, HeldRequest, replay_text

REPORT = CrashReport(
    number=7, model="m", time="", monotonic_s=0.0, source="/a'b\".mar", cause='said """\\x"""'
)
BODIES = {
    "text": b'{"it\'s": "\\"$HOME`\\n"}',
    "bytes": b"\x00\xff\r\n",
    "a file name of curl": b"@/etc/passwd",
    "nothing": b"",
    "unicode": "\u00f6\U0001f600".encode(),
}


def held(body, **more):
    values = {"request_id": "r", "method": "POST", "target": "/m/predict?a='b'&c=$d"}
    return HeldRequest(body=body, body_bytes=len(body or b""), **values | more)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_test_has_the_body_that_was_sent(body):
    request = held(body, headers={"content-type": "text/plain", "accept": "a'\"\\"})
    text = replay_text(REPORT, request, "pytest")
    names = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.Assign):
            code = compile(ast.Module([node], []), "test", "exec")
            exec(code, names)

    assert (names["BODY"], names["HEADERS"]) == (body, {"accept": "a'\"\\"})
    assert names["MODEL"] == REPORT.source
    assert "'text/plain'" in text
    assert "@" not in replay_text(REPORT, held(b"x"), "pytest")
    assert text.count("base64") == (2 if body == BODIES["bytes"] else 0)
    assert "pathlib" not in text


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_command_has_no_loose_quotes(body):
    text = replay_text(REPORT, held(body, headers={"x": "it's; rm"}), "curl", "http://h:1/")
    words = shlex.split(text)

    assert "http://h:1/m/predict?a='b'&c=$d" in words
    assert "x: it's; rm" in words
    if body == BODIES["text"]:
        assert body.decode() in words


def test_a_body_that_was_not_kept_is_asked_for():
    request = HeldRequest(request_id="r", method="POST", target="/m", body_bytes=5)

    assert "--data-binary @body" in replay_text(REPORT, request, "curl")
    assert "Path('body').read_bytes()" in replay_text(REPORT, request, "pytest")
