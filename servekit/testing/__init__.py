# SPDX-License-Identifier: Apache-2.0
"""For the tests of a service: in this process, or behind a real server.

ServiceClient(MyService, "model_directory")     no processes, no sockets
ServedModel("model_directory")                  ``servekit start``, and how to disturb it
serve_model                                     a pytest fixture that makes and ends those
"""

from servekit.checkup.comparison import TOLERANCE, difference
from servekit.testing.client import ServiceClient
from servekit.testing.response import Response
from servekit.testing.server import ServedModel

__all__ = ["TOLERANCE", "Response", "ServedModel", "ServiceClient", "difference"]
