# SPDX-License-Identifier: Apache-2.0
"""Custom endpoints get the path as the client sent it."""

import io
from types import SimpleNamespace

import pytest
from flask import Flask
from servekit_mms import relay


@pytest.mark.parametrize("target", ["/echo/a%20b", "/echo/x%3Frole=admin", "/echo/a?b=%20"])
def test_the_target_is_passed_on_as_it_was_sent(monkeypatch, target):
    asked = []

    class Connection:
        def __init__(self, _socket, _timeout_s):
            pass

        def request(self, method, target, *_rest):
            asked.append((method, target))

        def getresponse(self):
            return SimpleNamespace(read=io.BytesIO(b"x").read, status=200, getheaders=list)

        def close(self):
            pass

    monkeypatch.setattr(relay, "UnixConnection", Connection)
    with Flask("app").test_request_context(target, environ_overrides={"RAW_URI": target}):
        assert relay._relay("socket").status_code == 200
    assert asked == [("GET", target)]
