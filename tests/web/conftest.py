# SPDX-License-Identifier: Apache-2.0
"""What most tests of the Flask app start from."""

import pytest
from flask.testing import FlaskClient

from .fakes import FakeServer, model_row


@pytest.fixture
def server() -> FakeServer:
    """Return a server with the two healthy models ``digits`` and ``echo``."""
    return FakeServer(model_row("digits"), model_row("echo"))


@pytest.fixture
def client(server: FakeServer) -> FlaskClient:
    return server.client()
