# SPDX-License-Identifier: Apache-2.0
"""Requests that come by the protocols of plugins."""
