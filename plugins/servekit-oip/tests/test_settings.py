# SPDX-License-Identifier: Apache-2.0
"""The settings of the plugin."""

import msgspec
import pytest
from servekit_oip.grpc.settings import OipSettings


@pytest.mark.parametrize("address", ["", "0.0.0.0:8001", "[::1]:0", "localhost:65535"])
def test_an_address(address):
    assert msgspec.convert({"grpc": address}, OipSettings).grpc == address


@pytest.mark.parametrize("address", ["8001", ":8001", "localhost", "localhost:http", "h:123456"])
def test_no_address(address):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"grpc": address}, OipSettings)
