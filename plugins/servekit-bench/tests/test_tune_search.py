# SPDX-License-Identifier: Apache-2.0
"""The search finds what is planted, in simulated servers."""

import pytest
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.outcome import CandidateComparison, Outcome
from servekit_bench.tune.planning import Goal
from servekit_bench.tune.text import as_json, as_text
from servekit_bench.tune.trials import MeasuredCandidate, Trial

from servekit.errors import StartupError

from .planted_lab import OWN, PlantedLab, search

pytestmark = pytest.mark.slow  # thousands of simulated requests for each candidate


def line(base_ms, each_ms):
    return lambda size, threads: (base_ms + each_ms * size) / 1e3


def test_the_best_batch_of_a_line_is_found():
    outcome = search(PlantedLab(line(20, 2)), 0.12)
    best = outcome.best

    assert 12 <= best.candidate.max_batch_size <= 64
    assert best.rate(outcome.goal) > 1.7 * outcome.own.rate(outcome.goal)
    assert outcome.model_error < 0.15


def test_a_cliff_is_avoided():
    outcome = search(PlantedLab(lambda size, _: 0.01 + 0.001 * size + 0.2 * (size > 16)), 0.25)

    assert outcome.best.candidate.max_batch_size == 16


def test_more_threads_that_are_slower_are_avoided():
    outcome = search(PlantedLab(lambda size, threads: (0.01 + 0.001 * size) * threads**2), 0.1)

    assert outcome.best.candidate.threads == 1


def test_threads_that_do_not_matter_are_left_to_the_server():
    outcome = search(PlantedLab(line(10, 1)), 0.1)

    assert outcome.best.candidate.threads == 0


def test_replicas_are_added_as_far_as_cores_help():
    waiting = search(PlantedLab(line(10, 1), cores=4, cpu=0.0), 0.1, max_replicas=4)
    computing = search(PlantedLab(line(10, 1), cores=2, cpu=1.0), 0.1, max_replicas=8)

    assert waiting.best.candidate.replicas == 4
    assert computing.best.candidate.replicas == 2


def test_batches_that_fail_are_never_served_and_are_named():
    lab = PlantedLab(line(10, 0.1), wall=24)
    outcome = search(lab, 0.1)

    assert all(each.max_batch_size < 24 for each in lab.served)
    assert (
        "batches of 24 fail (507 Out of memory); 16 is the largest that worked" in outcome.avoided
    )


def test_the_archives_own_settings_are_not_served_if_they_fail():
    lab = PlantedLab(line(10, 0.1), wall=24)
    outcome = search(lab, 0.1, own=Candidate(max_batch_size=32))

    assert outcome.own is None
    assert outcome.best is not None
    assert "the archive's settings, batch 32, replicas 1" in outcome.avoided


def test_replicas_that_do_not_fit_into_the_memory_are_named():
    lab = PlantedLab(line(10, 1), cores=8, replica_bytes=100 << 20)
    outcome = search(lab, 0.1, max_replicas=8, memory=400 << 20)

    assert {each.replicas for each in lab.served} <= {1, 2, 3}
    assert any("4 replicas or more do not fit into the memory" in each for each in outcome.avoided)


def test_a_rate_is_served_with_the_fewest_replicas():
    lab = PlantedLab(line(10, 1), cores=8)
    few = search(lab, 0.1, rate=300, max_replicas=8)
    many = search(lab, 0.1, rate=1500, max_replicas=8)

    assert few.best.candidate.replicas == 1
    assert 2 <= many.best.candidate.replicas <= 3
    assert many.best.p99_s(many.goal) <= 0.1


@pytest.mark.parametrize("rate", [0.0, 50.0])
def test_a_latency_that_cannot_be_kept(rate):
    outcome = search(PlantedLab(line(100, 1)), 0.05, rate=rate)
    text = as_text("m", outcome)

    assert outcome.best is None
    assert "no settings keep a p99 of 50 ms" in text
    assert "the best was" in text
    assert as_json("m", outcome)["is_kept"] is False


def test_a_rate_that_cannot_be_served():
    outcome = search(PlantedLab(line(100, 100)), 0.5, rate=1000)

    assert outcome.best is None
    assert "no settings keep a p99 of 500 ms at 1000 requests/s" in as_text("m", outcome)


@pytest.mark.parametrize("servers", [0, 1, 2])
def test_ctrl_c_keeps_what_is_known(servers):
    outcome = search(PlantedLab(line(20, 2), interrupt_at=servers), 0.12)
    text = as_text("m", outcome)

    assert outcome.was_stopped
    assert "a batch of n costs 20 ms + n * 2 ms" in text
    assert "it was stopped before its end" in text
    assert (outcome.best is not None) == (servers > 0)


def test_settings_that_are_the_best_already_stay():
    own = Candidate(max_batch_size=64)
    outcome = search(PlantedLab(line(20, 0.01)), 0.2, own=own)

    assert outcome.best.rate(outcome.goal) <= 1.1 * outcome.own.rate(outcome.goal)


def test_a_service_without_batches_is_refused():
    class Streaming(PlantedLab):
        def probe(self, threads, sizes, longest_s, deadline):
            found = super().probe(threads, sizes[:1], longest_s, deadline)
            found.largest_burst = 2
            return found

    with pytest.raises(StartupError, match="are not predicted in batches"):
        search(Streaming(line(10, 1)), 0.1)


def outcome_of(*latencies, rates=(100, 90)):
    """Return the outcome of two candidates with 99th percentiles at the rate of the first."""
    goal = Goal(0.1)
    batches = Candidate(max_batch_size=8), Candidate(max_batch_size=16, replicas=2)
    outcome = Outcome(goal, OWN)
    trials = {}
    for candidate, rate, found in zip(batches, rates, latencies, strict=True):
        compared = [Trial(100, 100, each / 2, each, 0) for each in found]
        measured = MeasuredCandidate(candidate, rate, [Trial(rate, rate, 0.02, 0.05, 0), *compared])
        outcome.measured.append(measured)
        trials[candidate] = compared
    outcome.comparison = CandidateComparison(100, trials)
    return outcome


@pytest.mark.parametrize(
    ("first", "second", "batch"),
    [
        pytest.param([0.06, 0.061, 0.06], [0.05, 0.049, 0.05], 16, id="the faster one"),
        pytest.param(
            [0.03, 0.09, 0.06], [0.05, 0.02, 0.08], 8, id="within the noise: fewer changes"
        ),
        pytest.param([0.06, 0.06, 0.06], [0.5, 0.4, 0.5], 8, id="only one keeps the latency"),
        pytest.param([3.0, 3.1, 3.0], [2.0, 2.1, 2.0], 16, id="neither: the rate that was kept"),
    ],
)
def test_the_comparison_decides(first, second, batch):
    best = outcome_of(first, second).best

    assert best.candidate.max_batch_size == batch


def test_a_comparison_that_is_decided_gives_confidence():
    outcome = search(PlantedLab(line(20, 2)), 0.12)

    assert outcome.confidence in ("high", "medium")
    assert outcome.comparison is not None
    assert as_json("m", outcome)["recommended"]["max_batch_size"] != OWN.max_batch_size
