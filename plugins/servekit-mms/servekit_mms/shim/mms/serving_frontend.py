# SPDX-License-Identifier: Apache-2.0
"""The server as an object."""

from servekit_mms.serving_frontend import ServingFrontend

__all__ = ["ServingFrontend"]
