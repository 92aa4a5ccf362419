# SPDX-License-Identifier: Apache-2.0
"""Bytes of a child become safe lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.supervisor.os.output import KEPT_LINES, MAX_LINE_BYTES, Lines, Throttle


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param([b"a\nb\n"], ["a", "b"], id="two lines in one chunk"),
        pytest.param([b"a", b"b\n"], ["ab"], id="one line in two chunks"),
        pytest.param([b"a\r\n"], ["a"], id="carriage return before the break goes"),
        pytest.param([b"a\rb\n"], [r"a\rb"], id="carriage return inside is escaped"),
        pytest.param([b"\x1b[2J\n"], [r"\x1b[2J"], id="terminal escape is escaped"),
        pytest.param([b"a\tb\n"], ["a\tb"], id="tab stays"),
        pytest.param([b"\xff\n"], [r"\xff"], id="what is not UTF-8 is escaped"),
        pytest.param([b"gr\xc3", b"\xbcn\n"], ["grün"], id="character cut in two"),
        pytest.param(["\u2028\u202e\n".encode()], [r"\u2028\u202e"], id="separators and overrides"),
        pytest.param([b"no break"], [], id="unfinished line waits"),
    ],
)
def test_lines(chunks, expected):
    lines = Lines()

    assert [line for chunk in chunks for line in lines.feed(chunk)] == expected


def test_end_gives_the_unfinished_line_once():
    lines = Lines()
    lines.feed(b"last words")

    assert (lines.end(), lines.end()) == (["last words"], [])


def test_endless_line_is_cut_and_not_kept():
    lines = Lines()
    for _ in range(100):
        lines.feed(b"x" * 100_000)

    assert lines.feed(b"\nnext\n") == ["x" * MAX_LINE_BYTES + " [cut]", "next"]


def test_last_lines_are_kept_for_the_crash_report():
    lines = Lines()
    lines.feed(b"".join(b"%d\n" % number for number in range(100)))

    assert list(lines.tail) == [str(number) for number in range(100 - KEPT_LINES, 100)]


@given(st.lists(st.binary(max_size=200)))
def test_a_line_is_always_one_printable_line(chunks):
    lines = Lines()
    found = [line for chunk in chunks for line in lines.feed(chunk)] + lines.end()

    assert all(
        line.isprintable() or set(line) - {"\t"} == set(line.replace("\t", "")) for line in found
    )
    assert all(len(line.splitlines()) <= 1 for line in found)


def test_throttle_drops_and_counts():
    throttle = Throttle(lines_per_second=3)

    assert throttle.admit(list("abcde"), 1.0) == list("abc")
    assert throttle.admit(list("f"), 1.9) == []
    assert throttle.admit(list("g"), 2.0) == ["[3 lines dropped]", "g"]


def test_last_lines_are_shown_at_the_end_if_they_were_dropped():
    throttle = Throttle(lines_per_second=3)
    throttle.admit([str(number) for number in range(100)], 1.0)

    kept = [str(number) for number in range(100 - KEPT_LINES, 100)]
    assert throttle.end() == [f"[{97 - KEPT_LINES} lines dropped]", *kept]
    assert throttle.end() == []
