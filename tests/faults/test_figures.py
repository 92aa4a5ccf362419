# SPDX-License-Identifier: Apache-2.0
"""A verdict can fail."""

import math
import os
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.faults import __main__ as command
from tests.faults import leaks, playing, procfs
from tests.faults.figures import at_least, at_most, equal, none
from tests.faults.ledger import Ledger, Line
from tests.faults.rows.overload import for_nobody


@pytest.mark.parametrize(
    ("figure", "is_met"),
    [
        pytest.param(at_most("a", 1, 1), True, id="the limit itself is kept"),
        pytest.param(at_most("a", 1.01, 1), False, id="above the limit is missed"),
        pytest.param(at_most("a", math.nan, 1), False, id="not measured is missed"),
        pytest.param(at_least("a", 1, 1), True, id="just enough is kept"),
        pytest.param(at_least("a", 0.99, 1), False, id="too little is missed"),
        pytest.param(at_least("a", math.nan, 1), False, id="nothing to compare is missed"),
        pytest.param(none("a", []), True, id="none found"),
        pytest.param(none("a", ["x"]), False, id="one found"),
        pytest.param(equal("a", [0], [0]), True, id="equal"),
        pytest.param(equal("a", [0, 1], [0]), False, id="not equal"),
    ],
)
def test_verdicts(figure, is_met):
    assert figure.is_met is is_met


@pytest.mark.parametrize(("figure", "status"), [(none("a", []), 0), (none("a", ["x"]), 1)])
def test_one_missed_figure_fails_the_command(monkeypatch, capsys, figure, status):
    def row(stage):
        """Promise nothing."""
        yield figure

    monkeypatch.setitem(playing.ROWS, "F1", row)

    assert command.main(["--only", "F1"]) == status
    printed = capsys.readouterr()
    assert ("**MISSED**" in printed.out) is bool(status)
    assert ("missed: F1 a" in printed.err) is bool(status)


def test_a_row_that_breaks_off_is_missed(monkeypatch):
    def row(stage):
        """Break off."""
        yield none("a", [])
        raise ValueError("broken")

    monkeypatch.setitem(playing.ROWS, "F1", row)
    (missed,) = playing.play("F1", is_short=True, say=print).missed

    assert missed.measured == "ValueError: broken"


def test_rows_are_chosen_by_number():
    assert command.chosen("f3, F5") == ["F2-F3", "F5"]


LINES = [
    (Line("a", "good", 0, 0, 1.0, "left"), 1.05, False, "it ran as its client left"),
    (Line("a", "good", 0, 0, 1.0, "left"), 1.5, True, "it ran long after its client had left"),
    (Line("a", "good", 0, 0, 1.0, "answered", 429), None, False, "it was refused and never ran"),
    (Line("a", "good", 0, 0, 1.0, "answered", 504), 1.1, True, "it ran after its 504"),
    (Line("a", "good", 0, 0, 1.0, "answered", 200), 0.5, False, "it ran and was answered"),
]


@pytest.mark.parametrize(("line", "began", "counts", "why"), LINES, ids=[row[3] for row in LINES])
def test_what_ran_for_nobody_is_found(line, began, counts, why):
    ran = [] if began is None else [("a", began)]

    assert bool(for_nobody(Ledger([line]), ran)) is counts


def test_what_a_server_holds_more_is_named(monkeypatch):
    before = Counter({("front-end", "descriptors"): 10, ("supervisor", "processes"): 1})
    monkeypatch.setattr(leaks, "SETTLE_S", 0.05)
    monkeypatch.setattr(
        leaks, "holdings", lambda _server: before + Counter({("front-end", "memfds"): 2})
    )

    assert leaks.grown(None, before) == ["front-end: +2 memfds"]
    assert leaks.grown(None, before + Counter({("supervisor", "processes"): 1})) == [
        "front-end: +2 memfds",
        "supervisor: -1 processes",
    ]


def test_workers_of_models_that_cannot_load_are_not_counted():
    def server(uncounted):
        found = [procfs.Process(os.getpid(), 0, 0, role) for role in ("worker sick", "worker good")]
        return SimpleNamespace(processes=lambda: found, uncounted=uncounted)

    assert {role for role, _ in leaks.holdings(server({"worker sick"}))} == {"worker good"}
    assert {role for role, _ in leaks.holdings(server(set()))} == {"worker sick", "worker good"}


def test_shared_memory_that_another_process_has_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(leaks, "SHARED_MEMORY", tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "left").touch()
    with (tmp_path / "open").open("w"):
        server = SimpleNamespace(left_over=list, scratch=tmp_path / "directory", cache=tmp_path)

        assert leaks.left_behind(server, set()) == [f"{tmp_path}/left"]


def test_what_comes_and_goes_is_no_leak(monkeypatch):
    """One look that is as before suffices, whatever the next one would show."""
    before = Counter({("supervisor", "descriptors"): 10})
    looks = iter([before + before, before, before + before])
    monkeypatch.setattr(leaks, "holdings", lambda _server: next(looks))

    assert leaks.grown(None, before) == []
