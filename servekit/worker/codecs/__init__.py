# SPDX-License-Identifier: Apache-2.0
"""Codecs: one decodes and encodes the bodies of one media type. ``table.py`` finds them."""
