# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry traces of the requests of a servekit server."""
