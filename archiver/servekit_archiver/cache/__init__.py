# SPDX-License-Identifier: Apache-2.0
"""Unpacked archives, shared by everybody who serves the same content."""
