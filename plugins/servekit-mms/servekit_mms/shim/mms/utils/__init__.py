# SPDX-License-Identifier: Apache-2.0
"""Helpers for services."""
