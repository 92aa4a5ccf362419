# SPDX-License-Identifier: Apache-2.0
"""Reads ``/metrics``."""

import re
from urllib.request import urlopen

LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def scrape(port: int) -> str:
    """Return the exposition, over a connection of its own: any front-end may answer."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def total(text: str, series: str, *labels: str) -> float:
    """Add up the values of *series* whose labels hold all of *labels*, as in ``model="a"``."""
    return sum(
        float(value)
        for name, of, value in LINE.findall(text)
        if name == series and all(label in of for label in labels)
    )
