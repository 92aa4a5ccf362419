# SPDX-License-Identifier: Apache-2.0
"""The table, with a peer beside servekit."""

import pytest

from tests.faults import __main__ as command
from tests.faults.figures import at_most, none
from tests.faults.playing import Outcome, play
from tests.faults.report import markdown, section
from tests.faults.subjects import PEERS, SERVEKIT, Mosec


def outcome(subject, *figures, left_out=""):
    return Outcome(
        key="F1", promise="It holds.", subject=subject, figures=list(figures), left_out=left_out
    )


OWN = outcome("servekit", none("lost", []), at_most("late", 3, 1, "s"))
PEER = outcome("mosec", none("lost", ["a"]), none("memory of others", []))


def test_a_peer_has_a_column_and_no_verdict():
    rows = [line.split("|")[1:-1] for line in section(OWN, [PEER]).splitlines() if "|" in line]

    assert [[cell.strip() for cell in row] for row in rows if "-" not in row[0]] == [
        ["figure", "wanted", "measured", "verdict", "mosec"],
        ["lost", "0", "0", "kept", "1: a"],
        ["late", "<= 1 s", "3 s", "**MISSED**", ""],
        ["memory of others", "", "", "", "0"],
    ]


def test_a_row_that_a_peer_cannot_go_through_says_why():
    text = section(OWN, [outcome("mosec", left_out="it has no reload")])

    assert "| verdict    |\n" in text
    assert text.endswith("\nmosec: it has no reload.\n")


@pytest.mark.parametrize(
    ("peers", "named"), [({}, False), ({"mosec": "0.9"}, True)], ids=["alone", "beside a peer"]
)
def test_only_what_servekit_misses_is_counted(peers, named):
    text = markdown([OWN, PEER], peers)

    assert "2 figures, 1 missed" in text
    assert ("mosec 0.9" in text) is named
    assert text.count("## F1") == 1


def test_a_row_that_makes_no_sense_for_a_peer_is_not_played():
    left_out = play("F8", is_short=True, say=print, subject=PEERS["mosec"])

    assert (left_out.left_out, left_out.figures) == ("it has no reload", [])


def test_a_peer_misses_nothing_of_ours(monkeypatch, capsys):
    def played(key, *, is_short, say, subject=SERVEKIT):
        return outcome(subject.name, none("lost", [] if subject is SERVEKIT else ["a"]))

    monkeypatch.setattr(command, "prepare", lambda _name: ([PEERS["mosec"]], {"mosec": "1"}))
    monkeypatch.setattr(command, "play", played)

    assert command.main(["--only", "F1", "--beside", "mosec"]) == 0
    assert "| 1: a" in capsys.readouterr().out


def test_mosec_gets_the_settings_that_it_has(monkeypatch, tmp_path):
    mosec = Mosec()
    monkeypatch.setattr(mosec, "_python", tmp_path, raising=False)
    settings = ("--models", "work", "--replicas=2", "--queue=64", "--predict-timeout=0.5")
    argv, environment, port = mosec.command(tmp_path, [*settings, "--body-timeout=1"])

    assert argv[2] == "work"
    assert argv[-2:] == ["--capacity=64", "--timeout=500"]
    assert (environment, f"--port={port}" in argv) == ({"FAULTS_REPLICAS": "2"}, True)


@pytest.mark.parametrize(
    ("subject", "line", "is_child", "role"),
    [
        (SERVEKIT, "python\0-m\0servekit.worker\0work/0\0", True, "worker work"),
        (SERVEKIT, "python\0-m\0servekit.frontend\0", True, "arbiter"),
        (SERVEKIT, "python\0-m\0servekit.frontend\0", False, "front-end"),
        (
            PEERS["mosec"],
            "python\0-c\0from multiprocessing.spawn import spawn_main",
            True,
            "worker work",
        ),
        (PEERS["mosec"], "/lib/mosec/bin/mosec\0config.json", True, "front-end"),
        (PEERS["mosec"], "python\0-c\0from multiprocessing.resource_tracker", True, "other"),
    ],
)
def test_processes_are_told_apart(subject, line, is_child, role):
    assert subject.role(line, is_root=False, is_child=is_child) == role
    assert subject.role(line, is_root=True, is_child=False) == "supervisor"
