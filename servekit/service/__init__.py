# SPDX-License-Identifier: Apache-2.0
"""For authors of services: services, responses, endpoints, options, weights, metrics."""

from servekit.service.base import Context, Done, Service
from servekit.service.request import Request

__all__ = ["Context", "Done", "Request", "Service"]
