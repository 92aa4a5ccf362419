# SPDX-License-Identifier: Apache-2.0
"""The manifests of the model, rendered once."""

import pytest

from . import node
from .stage import Rendered


@pytest.fixture(scope="package")
def rendered(tmp_path_factory):
    """The manifests and images of the model."""
    if reason := node.why_not():
        pytest.skip(reason)
    return Rendered(tmp_path_factory.mktemp("rendered"))
