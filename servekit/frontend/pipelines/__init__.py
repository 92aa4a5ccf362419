# SPDX-License-Identifier: Apache-2.0
"""Requests that take several steps."""
