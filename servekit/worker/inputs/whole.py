# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that a client writes as ``1.0``: to JSON Schema they are integers, too."""

from typing import Any

__all__ = ["with_whole_numbers"]

LARGEST = 2.0**53  #: beyond it a double may stand for another number than was written


def with_whole_numbers(value: Any) -> Any:
    """Return a copy of a decoded *value* with integers in place of floats that are whole."""
    if isinstance(value, float):
        return int(value) if -LARGEST <= value <= LARGEST and value.is_integer() else value
    if isinstance(value, list):
        return [with_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: with_whole_numbers(each) for key, each in value.items()}
    return value
