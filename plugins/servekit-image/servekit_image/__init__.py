# SPDX-License-Identifier: Apache-2.0
"""Decodes image bodies into NumPy arrays."""
