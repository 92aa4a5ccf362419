# SPDX-License-Identifier: Apache-2.0
"""The parts that all versions of HTTP share: sockets, TLS, fields, requests and their bodies."""
