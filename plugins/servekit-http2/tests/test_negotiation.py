# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 over TLS, by ALPN; and with tokens."""

import os
import ssl

import httpx
import pytest

from tests.frontend.certificates import Files, offering
from tests.frontend.conftest import WAIT_S, FrontEndUnderTest, post, receive

from .peer import PREFACE, Peer, get_fields

BODY = os.urandom(3_000_000)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory, files):
    directory = tmp_path_factory.mktemp("run")
    front_end = FrontEndUnderTest(directory, **files.settings)
    yield front_end
    assert front_end.stop() == 0


def test_client_that_offers_http2_gets_it(encrypted, files):
    context = ssl.create_default_context(cafile=files.ca)
    url = f"https://localhost:{encrypted.port}/echo/predict"
    with httpx.Client(http2=True, verify=context, timeout=WAIT_S) as client:
        for body in (b"1", BODY):
            answer = client.post(url, content=body)
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
            assert answer.content == body


@pytest.mark.parametrize(
    ("offered", "sent", "status"),
    [
        pytest.param(["h2"], post(b"1"), 400, id="HTTP/1.1 where HTTP/2 was agreed on"),
        pytest.param(["http/1.1"], PREFACE, 505, id="HTTP/2 where HTTP/1.1 was agreed on"),
        pytest.param([], PREFACE, 505, id="HTTP/2 where nothing was agreed on"),
    ],
)
def test_what_was_agreed_on_is_binding(encrypted, files, offered, sent, status):
    context = offering(files, *offered)
    with (
        encrypted.connect() as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        sock.sendall(sent)

        assert receive(sock)[0] == status


def test_body_of_undeclared_length_needs_a_token(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("first-token\n")
    with start(predict_token_file=str(tokens)).connect() as sock:
        peer = Peer(sock)
        peer.send(peer.headers(1, get_fields("/ping")))
        assert peer.answer(1)[0] == 401
        peer.get(3, "/ping")
        assert peer.answer(3)[0] == 200
