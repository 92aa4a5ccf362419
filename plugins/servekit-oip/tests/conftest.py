# SPDX-License-Identifier: Apache-2.0
"""A server with the models that the examples of Triton's client expect, and with some of ours."""

import pytest

from servekit.testing import ServedModel

from .oip_models import write_models


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("oip") / "store")


@pytest.fixture(scope="session")
def token_file(store):
    """Return a file with the token for management, ``manager``."""
    token = store.parent / "manage-token"
    token.write_text("manager\n")
    token.chmod(0o600)
    return token


@pytest.fixture(scope="module")
def served(store, token_file):
    """Serve all models."""
    options = {"compression": ["gzip", "deflate"], "manage_token_file": str(token_file)}
    with ServedModel(store / "simple", model_store=str(store), **options) as model:
        yield model.wait_ready()
