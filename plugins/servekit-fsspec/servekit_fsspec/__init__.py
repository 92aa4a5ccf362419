# SPDX-License-Identifier: Apache-2.0
"""Fetches assets through fsspec."""
