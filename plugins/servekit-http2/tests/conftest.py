# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the front-end's tests, here with clients of HTTP/2."""

from tests.frontend.conftest import clients, shared, start

__all__ = ["clients", "shared", "start"]
