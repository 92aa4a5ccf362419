# SPDX-License-Identifier: Apache-2.0
"""Processes, sockets, signals, users."""
