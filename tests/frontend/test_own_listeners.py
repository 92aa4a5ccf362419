# SPDX-License-Identifier: Apache-2.0
"""Transports with a listener of their plugin: where it is, and what is refused there."""

import socket
from contextlib import closing
from types import SimpleNamespace

import pytest
from msgspec import Struct

from servekit.errors import PluginError, StartupError, VersionNotSupported
from servekit.extension import HttpRequest, TransportOffer
from servekit.frontend.server.own_listeners import open_own_listeners, refusing_http1


class Addresses(Struct):
    """The settings of a plugin."""

    gate: str = ""


def opened(address, target="json:loads", **more):
    offer = TransportOffer(alpn="h2", preface=b"x", target=target, **more)
    plugins = SimpleNamespace(contributions=lambda _: [("other", [offer])])
    return open_own_listeners(plugins, {"other": Addresses(address)})


def test_an_address_is_listened_at_and_shown(capsys):
    (found,) = opened("127.0.0.1:0", address_setting="gate", title="Gate")
    with closing(found.socket):
        port = found.socket.getsockname()[1]

    assert capsys.readouterr().out == f"Gate at 127.0.0.1:{port}\n"
    assert (found.transport.alpn, found.title) == ("h2", "Gate")


@pytest.mark.parametrize(
    ("address", "more"), [("", {"address_setting": "gate"}), ("127.0.0.1:0", {})]
)
def test_without_an_address_nothing_is_opened(address, more):
    assert opened(address, **more) == []


def test_an_address_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartupError, match=f"other: gate = {address}: cannot listen"):
            opened(address, address_setting="gate")


def test_a_class_that_cannot_be_imported():
    with pytest.raises(PluginError, match="other: gate: No module named 'nowhere'"):
        opened("127.0.0.1:0", "nowhere:Connection", address_setting="gate")


@pytest.mark.parametrize(("version", "is_refused"), [("1.1", True), ("2", False)])
def test_http_1_is_refused(version, is_refused):
    seen = []
    handle = refusing_http1(lambda _, request: seen.append(request), "Gate")
    handle(None, HttpRequest(b"GET", b"/", {}, b"", True, version))

    assert isinstance(seen[0].refusal, VersionNotSupported) is is_refused
    assert seen[0].keeps_alive is not is_refused
