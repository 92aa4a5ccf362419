# SPDX-License-Identifier: Apache-2.0
"""Keeps the cost of a request from growing, on any machine: counts, no clocks."""
