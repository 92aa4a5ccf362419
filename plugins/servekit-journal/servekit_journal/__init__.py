# SPDX-License-Identifier: Apache-2.0
"""Writes what happens in a server to a file of JSON lines."""
