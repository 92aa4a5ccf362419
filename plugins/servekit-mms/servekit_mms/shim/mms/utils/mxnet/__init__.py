# SPDX-License-Identifier: Apache-2.0
"""Helpers for services, with NumPy arrays in place of those of MXNet."""
