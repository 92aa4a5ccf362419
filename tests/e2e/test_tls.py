# SPDX-License-Identifier: Apache-2.0
"""A server that speaks TLS, and gets another certificate while it serves."""

import http.client
import signal
import ssl
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from tests.waiting import wait_until

from .conftest import WAIT_S

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
MODEL = Path(__file__).parents[1] / "benchmarks" / "models" / "sum"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def pem(tmp_path_factory, authority):
    path = tmp_path_factory.mktemp("pem") / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def server(serve, pem):
    return serve("--models", MODEL, "--tls-certificate", pem)


def predict(server, authority) -> int:
    """Return the serial number of the certificate that a good answer came under."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    client = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=WAIT_S, context=context)
    with closing(client):
        client.connect()
        serial = client.sock.getpeercert()["serialNumber"]
        headers = {"Content-Type": "application/json"}
        client.request("POST", "/sum/predict", b'{"x": [1, 2]}', headers)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"prediction":3}')
    return int(serial, 16)


def test_new_certificate_is_taken_on_sighup_and_no_request_fails(server, authority, pem):
    assert f"https://127.0.0.1:{server.port}" in server.output
    before = predict(server, authority)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
    server.process.send_signal(signal.SIGHUP)

    wait_until(lambda: predict(server, authority) != before, "the new certificate is shown")


def test_bad_certificate_is_named_and_the_old_one_stays(server, authority, pem):
    good = pem.read_bytes()
    pem.write_text("nothing\n")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for("it has no usable PEM; the previous content stays in use")
    for _ in range(50):
        predict(server, authority)
    pem.write_bytes(good)


def test_start_with_a_bad_certificate_is_one_line(serve, tmp_path):
    server = serve("--models", MODEL, "--tls-certificate", tmp_path / "none.pem", ready=False)

    assert server.process.wait(WAIT_S) == 3
    server.wait_for(f"tls_certificate: {tmp_path}/none.pem: no such file or directory")
    assert len(server.lines) == 1
