# SPDX-License-Identifier: Apache-2.0
"""Aliases, weights and the mirror of a model with several versions."""

from types import SimpleNamespace

import pytest

from servekit.ipc.operations import SetTraffic
from servekit.ipc.table import TrafficRow
from servekit.supervisor.models.traffic import ModelTraffic, WrongTraffic


class Served:
    """The versions that are loaded."""

    def __init__(self, *names):
        self.served = [SimpleNamespace(version=name) for name in names]

    def find(self, name):
        return next((each for each in self.served if each.version == name), None)


@pytest.fixture
def traffic():
    return ModelTraffic(Served("1.0", "2.0"), lambda: None)


def change(traffic, **parts):
    traffic.change(SetTraffic(model="digits", **parts))
    return traffic.wanted


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param({"aliases": {"canary": "2.0"}}, {"aliases": {"canary": "2.0"}}, id="alias"),
        pytest.param(
            {"weights": {"1.0": 90, "2.0": 10}}, {"weights": {"1.0": 90, "2.0": 10}}, id="weights"
        ),
        pytest.param({"sticky": "X-User"}, {"sticky": "x-user"}, id="sticky header"),
        pytest.param(
            {"mirror": "2.0", "mirror_percent": 5},
            {"mirror": "2.0", "mirror_percent": 5},
            id="mirror",
        ),
    ],
)
def test_what_is_given_is_taken_over(traffic, parts, expected):
    assert change(traffic, **parts) == TrafficRow(**expected)


def test_parts_that_are_not_given_stay(traffic):
    change(traffic, aliases={"stable": "1.0"}, sticky="x-user")
    change(traffic, aliases={"canary": "2.0"}, weights={"1.0": 1, "canary": 1})

    wanted = traffic.wanted
    assert wanted.aliases == {"stable": "1.0", "canary": "2.0"}
    assert wanted.weights == {"1.0": 1, "2.0": 1}
    assert wanted.sticky == "x-user"


def test_empty_values_remove(traffic):
    change(traffic, aliases={"a": "1.0"}, weights={"2.0": 1}, sticky="x", mirror="2.0")

    assert change(traffic, aliases={"a": ""}, weights={}, sticky="", mirror="") == TrafficRow()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param({"aliases": {"a": "3.0"}}, "no version 3.0; loaded: 1.0, 2.0", id="unknown"),
        pytest.param(
            {"aliases": {"1.0": "2.0"}}, "1.0 is the name of a version", id="alias is one"
        ),
        pytest.param({"aliases": {"a/b": "2.0"}}, "cannot be part of a path", id="slash"),
        pytest.param({"weights": {"1.0": -1}}, "1.0: -1 is below 0", id="negative weight"),
        pytest.param({"weights": {"1.0": 0}}, "all of them are 0", id="no weight at all"),
        pytest.param({"mirror": "3.0"}, "no version 3.0", id="unknown mirror"),
        pytest.param({"mirror_percent": 101}, "101 is not 0 to 100", id="percent"),
    ],
)
def test_wrong_values_change_nothing(traffic, parts, message):
    with pytest.raises(WrongTraffic, match=message):
        change(traffic, sticky="x-user", **parts)

    assert traffic.wanted == TrafficRow()


def test_a_new_default_version_gets_what_the_old_one_had(traffic):
    change(traffic, aliases={"stable": "1.0", "other": "2.0"}, weights={"1.0": 90, "2.0": 10})
    traffic.move("1.0", "2.0")

    assert traffic.wanted.aliases == {"stable": "2.0", "other": "2.0"}
    assert traffic.wanted.weights == {"2.0": 100}


def test_versions_that_are_not_loaded_are_not_in_the_table():
    traffic = ModelTraffic(Served("1.0"), lambda: None)
    traffic.wanted = TrafficRow(
        aliases={"stable": "1.0", "canary": "2.0"}, weights={"1.0": 9, "2.0": 1}, mirror="2.0"
    )

    assert traffic.row == TrafficRow(aliases={"stable": "1.0"}, weights={"1.0": 9})
