# SPDX-License-Identifier: Apache-2.0
"""The same real server as in the end-to-end tests."""

from tests.e2e.conftest import serve

__all__ = ["serve"]
