# SPDX-License-Identifier: Apache-2.0
"""Middleware: sees requests before they are routed, and responses before they are sent."""
