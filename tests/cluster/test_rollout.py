# SPDX-License-Identifier: Apache-2.0
"""Pods are replaced under load, as the rendered manifests say: no request is lost."""

from contextlib import suppress

import pytest

from .__main__ import LAGS_S, RUN_UP_S
from .controllers import TooManyDisruptions
from .stage import Stage, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def stage(tmp_path, rendered):
    """Two pods of version 1, ready."""
    with Stage(tmp_path, rendered) as running:
        running.wait_rolled_out()
        yield running


def under_load(stage, change, after="1"):
    """Start clients of each kind, wait for *change*, and return what became of their requests.

    :param after: the version that answers all of them in the end.
    """
    loads = [stage.load(kind, lag_s=lag_s) for kind, lag_s in LAGS_S.items()]
    for load in loads:
        load.wait_answered("1")
    stage.pass_time(RUN_UP_S)
    stage.deployment.watch()
    change()
    stage.pass_time(RUN_UP_S + max(LAGS_S.values()))
    for load in loads:
        load.wait_answered(after)
    return {load.kind: load.stop() for load in loads}


def assert_ended_well(pods):
    """All that was deleted has drained within its grace, and nothing was started again."""
    for pod in pods:
        assert not pod.restarts, f"{pod.name}: {pod.restarts}\n{pod.log}"
        if pod.is_gone:
            assert (pod.exits, pod.was_killed) == ([0], False), pod.log


def test_a_rollout_loses_no_request(stage, rendered):
    template = rendered.version("2")

    def change():
        stage.deployment.update(template)
        stage.wait_rolled_out()

    outcomes = under_load(stage, change, after="2")
    deployment = stage.deployment

    assert {kind: each["lost"] for kind, each in outcomes.items()} == dict.fromkeys(LAGS_S, 0), (
        outcomes
    )
    assert all(set(each["answered"]) == {"1", "2"} for each in outcomes.values())
    assert deployment.fewest_ready >= 2  # a quarter of two may be missing: none
    assert deployment.most_pods <= 3
    assert_ended_well(deployment.pods)
    assert len(deployment.pods) == 4


def test_evictions_lose_no_request_and_keep_to_the_budget(stage):
    deployment = stage.deployment

    def change():
        first, second = deployment.pods
        deployment.evict(first)
        with pytest.raises(TooManyDisruptions):
            deployment.evict(second)
        wait_until(lambda: is_evicted(second), "the second pod cannot be evicted")
        stage.wait_rolled_out()

    def is_evicted(pod):
        with suppress(TooManyDisruptions):
            deployment.evict(pod)
        return pod.is_terminating

    outcomes = under_load(stage, change)

    assert {kind: each["lost"] for kind, each in outcomes.items()} == dict.fromkeys(LAGS_S, 0), (
        outcomes
    )
    assert deployment.fewest_ready >= 1
    assert_ended_well(deployment.pods)
    assert len(deployment.pods) == 4
