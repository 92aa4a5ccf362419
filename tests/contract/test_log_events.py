# SPDX-License-Identifier: Apache-2.0
"""The table of events in ``docs/operating.md`` is compared with the code, in both directions."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [each.read_text() for each in (ROOT / "servekit").rglob("*.py")]
NAMED = re.compile(r'(?:Notice|_of_operation)\(\s*f?"([a-z_{}()]+)"')
PAGE = (ROOT / "docs/operating.md").read_text().partition("### Events\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
EVENTS = {event for row in ROWS for event in re.findall(r"`([a-z_]+)`", row)} - {"event"}


def test_the_table_has_every_event_and_no_other():
    named = {name for source in SOURCES for name in NAMED.findall(source)}
    for ending in (
        "_started",
        "_exited",
    ):  # of the kinds of processes that plugins and operators add
        assert f"{{_kind(subject)}}{ending}" in named
        named = named - {f"{{_kind(subject)}}{ending}"} | {f"daemon{ending}", f"process{ending}"}

    assert sorted(EVENTS) == sorted(named)
