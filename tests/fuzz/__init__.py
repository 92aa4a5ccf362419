# SPDX-License-Identifier: Apache-2.0
"""Requests that a grammar makes and mutates, against a real front-end: ``make fuzz``."""
