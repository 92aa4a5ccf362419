# SPDX-License-Identifier: Apache-2.0
"""Metrics of handlers of MMS 1.x."""
