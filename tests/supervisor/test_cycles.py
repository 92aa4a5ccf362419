# SPDX-License-Identifier: Apache-2.0
"""Models that call one another in a circle are refused."""

import pytest

from servekit.supervisor.models.calls import cycle_problem


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        pytest.param({"a": []}, "", id="no calls"),
        pytest.param({"a": ["b"], "b": ["c"]}, "", id="a chain"),
        pytest.param({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, "", id="two ways to one model"),
        pytest.param({"a": ["b"], "b": ["c"], "c": ["b"]}, "", id="a cycle of others"),
        pytest.param({"a": ["a"]}, "calls: a -> a is a cycle", id="itself"),
        pytest.param(
            {"a": ["x", "b"], "b": ["c"], "c": ["a"]},
            "calls: a -> b -> c -> a is a cycle",
            id="long",
        ),
    ],
)
def test_cycle(calls, problem):
    assert cycle_problem("a", calls) == problem
