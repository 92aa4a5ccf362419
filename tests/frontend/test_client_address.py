# SPDX-License-Identifier: Apache-2.0
"""Whose request it is, behind proxies that are trusted and others that are not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.frontend.http.client_address import ClientAddresses
from servekit.settings import SettingsError, load_settings
from tests.waiting import wait_until

from .conftest import FrontEndUnderTest, post, receive

PROXIES = ("10.0.0.0/8", "2001:db8::7", "unix")
PEER = ("10.1.2.3", 4711)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        pytest.param(("192.0.2.1", 1), "198.51.100.9", "192.0.2.1", id="no proxy of ours"),
        pytest.param(PEER, "198.51.100.9", "198.51.100.9", id="one proxy"),
        pytest.param(PEER, "198.51.100.9, 10.9.9.9", "198.51.100.9", id="two proxies"),
        pytest.param(PEER, "127.0.0.1, 198.51.100.9", "198.51.100.9", id="a client's own list"),
        pytest.param(PEER, "10.0.0.1, 10.0.0.2", "10.0.0.1", id="a client in the same network"),
        pytest.param(PEER, "", "10.1.2.3", id="the proxy's own request"),
        pytest.param(PEER, "nonsense, 10.0.0.2", "10.0.0.2", id="not an address"),
        pytest.param(PEER, "198.51.100.9:55", "198.51.100.9", id="with a port"),
        pytest.param(PEER, "[2001:db8::1]:55", "2001:db8::1", id="IPv6 with a port"),
        pytest.param(("2001:db8::7", 1, 0, 0), "2001:db8::1", "2001:db8::1", id="IPv6"),
        pytest.param(("::ffff:10.1.2.3", 1, 0, 0), "192.0.2.7", "192.0.2.7", id="IPv4 as IPv6"),
        pytest.param("", "198.51.100.9", "198.51.100.9", id="a Unix socket"),
        pytest.param(PEER, "198.51.100.9," + "10.0.0.1," * 40 + "10.0.0.2", "10.0.0.1", id="long"),
    ],
)
def test_the_client_is_the_first_address_that_is_no_trusted_proxy(peer, forwarded, expected):
    headers = {b"x-forwarded-for": forwarded.encode()} if forwarded else {}

    assert ClientAddresses(PROXIES).client_of(peer, headers) == expected


def test_nobody_is_believed_by_default():
    clients = ClientAddresses(())
    headers = {b"x-forwarded-for": b"198.51.100.9", b"x-forwarded-proto": b"https"}

    assert clients.client_of(PEER, headers) == "10.1.2.3"
    assert clients.client_of("", headers) == ""
    assert not clients.is_https(PEER, headers)


@pytest.mark.parametrize(
    ("peer", "proto", "expected"),
    [(PEER, b"https", True), (PEER, b"http", False), (PEER, b"http, HTTPS", True),
     (("192.0.2.1", 1), b"https", False), ("", b"https", True)],
)  # fmt: skip
def test_the_scheme_is_that_of_the_nearest_proxy(peer, proto, expected):
    assert ClientAddresses(PROXIES).is_https(peer, {b"x-forwarded-proto": proto}) is expected


@given(st.binary(max_size=200))
def test_any_header_is_read(forwarded):
    found = ClientAddresses(PROXIES).client_of(PEER, {b"x-forwarded-for": forwarded})

    assert found


@pytest.mark.parametrize("address", ["10.0.0.0/40", "proxy.example", "unix:/run/a"])
def test_what_is_not_an_address_is_refused(address):
    with pytest.raises(SettingsError, match="is not an IP address, a network"):
        load_settings({"trusted_proxies": [address]})


@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
def test_the_access_log_has_the_address_of_the_client(tmp_path, trusted):
    log = tmp_path / "access.jsonl"
    front_end = FrontEndUnderTest(tmp_path, access_log=str(log), trusted_proxies=trusted)
    try:
        with front_end.connect() as sock:
            sock.sendall(post(b"1", "X-Forwarded-For: 203.0.113.5, 198.51.100.9"))
            assert receive(sock)[0] == 200
        wait_until(lambda: log.read_text().endswith("\n"), "a line in the access log")
    finally:
        front_end.kill()

    expected = "198.51.100.9" if trusted else "127.0.0.1"
    assert json.loads(log.read_text())["peer"] == expected
