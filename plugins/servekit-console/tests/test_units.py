# SPDX-License-Identifier: Apache-2.0
"""Numbers are shown with three digits that matter, and a unit."""

import pytest
from servekit_console import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.0, "0"), (0.4, "0.4"), (0.044, "0.04"), (1.0, "1"), (12.34, "12.3"),
        (99.96, "100"), (640.4, "640"), (999.6, "1k"), (1234, "1.23k"), (18_400, "18.4k"),
        (2_000_000, "2M"), (None, "–"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert units.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00000051, "0.51 µs"), (0.00084, "840 µs"), (0.0012, "1.2 ms"), (0.9996, "1 s"),
        (3.44, "3.44 s"), (99, "99 s"), (120, "2 min"), (7200, "2 h"), (400_000, "5 d"),
        (None, "–"),
    ],
)  # fmt: skip
def test_durations(seconds, text):
    assert units.duration(seconds).replace(units.THIN, " ") == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "–"), (None, "–"), (512, "512 B"), (1 << 20, "1 MiB"), (3.5 * (1 << 30), "3.5 GiB")],
)
def test_memory(size, text):
    assert units.memory(size).replace(units.THIN, " ") == text
