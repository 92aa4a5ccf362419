# SPDX-License-Identifier: Apache-2.0
"""The parts of a search alone: curves, the simulated queue, settings, timings, the page."""

import subprocess
import sys
import tomllib
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_bench.targets import TargetOptions
from servekit_bench.tune.bursts import Burst, read_timing
from servekit_bench.tune.candidate import Candidate
from servekit_bench.tune.command import _manifest_of
from servekit_bench.tune.costs import CostCurve, fit_line
from servekit_bench.tune.machine import OtherProcesses
from servekit_bench.tune.outcome import Outcome
from servekit_bench.tune.page import tune_page
from servekit_bench.tune.planning import Goal
from servekit_bench.tune.probing import Probe, ProbeOrder, _Probing
from servekit_bench.tune.serving import ServerUsage
from servekit_bench.tune.simulation import Workload, highest_rate, simulate
from servekit_bench.tune.text import as_text, cost_lines, verdict
from servekit_bench.tune.trials import MeasuredCandidate, Trial, search_rate

from servekit.errors import StartupError

from .planted_lab import OWN, SIZES, PlantedLab, batch, search


@given(st.floats(1e-3, 1), st.floats(1e-4, 0.1), st.integers(0, 6))
def test_a_line_is_found_despite_an_outlier(base, each, outlier):
    points = [(size, base + each * size) for size in (1, 2, 4, 8, 16, 32, 64)]
    size, seconds = points[outlier]
    points[outlier] = (size, 5 * seconds)
    found = fit_line(points)

    assert found.each_s == pytest.approx(each, rel=0.5, abs=base)
    assert found.error < 0.3


def test_a_curve_goes_through_the_medians_and_continues_along_the_line():
    times = [(1, 1), (1, 1), (1, 9), (2, 2), (4, 4), (8, 8)]
    curve = CostCurve([batch(size, seconds) for size, seconds in times])

    assert [curve.seconds(size) for size in (1, 2, 3, 6, 8, 16)] == [1, 2, 3, 6, 8, 16]


def test_a_size_that_was_disturbed_costs_no_more_than_a_larger_one():
    curve = CostCurve([batch(1, 1), batch(2, 50), batch(4, 4), batch(8, 8)])

    assert curve.points == [(1, 1), (2, 4), (4, 4), (8, 8)]


def test_a_trial_that_was_disturbed_is_repeated():
    goal, measured = Goal(0.1), MeasuredCandidate(Candidate(max_batch_size=1), 80)
    latencies = iter([5.0, *[0.01] * 10])
    run = lambda rate, _: Trial(rate, rate, 0.01, next(latencies), 0)  # noqa: E731
    search_rate(run, measured, goal, 80, 0.0)

    assert measured.rate(goal) == 80


def test_work_of_other_processes_is_noticed():
    others = OtherProcesses()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        deadline = monotonic() + 60
        while not others.cores():
            assert monotonic() < deadline, "the work of a child that still runs did not count"
        process.kill()


def test_a_simulated_queue_answers_at_once_while_it_is_idle():
    work = Workload(seconds=lambda size: 0.01)
    found = simulate(work, Candidate(max_batch_size=8), 0.1)

    assert found.p99_s == pytest.approx(0.01, rel=0.01)
    assert found.batch_size == pytest.approx(1, rel=0.01)


def test_a_simulated_queue_grows_without_end_above_its_capacity():
    work = Workload(seconds=lambda size: 0.01)

    assert simulate(work, Candidate(max_batch_size=2), 400).p99_s > 1
    assert simulate(work, Candidate(max_batch_size=8), 400).p99_s < 0.05


def test_a_delay_makes_batches_larger_and_answers_later():
    work = Workload(seconds=lambda size: 0.001)
    at_once, later = (
        simulate(work, Candidate(max_batch_size=16, max_delay_ms=delay), 500) for delay in (0, 20)
    )

    assert later.batch_size > 2 * at_once.batch_size
    assert later.p99_s == pytest.approx(0.021, rel=0.1)


def test_the_front_end_limits_the_rate():
    work = Workload(seconds=lambda size: 0.001, front_end_s=0.001)
    one, two = (
        highest_rate(work, Candidate(max_batch_size=64, front_ends=count), 0.1) for count in (1, 2)
    )

    assert 900 < one < 1000
    assert two > 1.8 * one


def test_no_rate_keeps_a_latency_below_that_of_one_batch():
    work = Workload(seconds=lambda size: 0.1)

    assert highest_rate(work, Candidate(max_batch_size=4), 0.05) == 0


def test_settings_are_a_section_of_servekit_toml():
    chosen = Candidate(max_batch_size=16, max_delay_ms=2.5, replicas=2, threads=1, front_ends=2)
    batching = {"max_batch_size": 16, "max_delay_ms": 2.5}

    assert tomllib.loads(chosen.to_toml("resnet-1.5")) == {
        "front_ends": 2,
        "models": {"resnet-1.5": {"replicas": 2, "threads": 1, "batching": batching}},
    }
    assert '"resnet-1.5".threads=1' in chosen.assignments("resnet-1.5")


def test_timings_of_an_answer():
    text = "queue;dur=1.0, batch;dur=0.5;desc=8, predict;dur=10.0, encode;dur=0.25, ipc;dur=0.125"
    found = read_timing(text)

    assert (found.size, found.predict_s, found.total_s) == (8, 0.01, pytest.approx(0.010875))
    assert read_timing("cache;dur=0.1") is None


def trial_of(limit):
    def run(rate, duration_s):
        return Trial(rate, min(rate, limit), 0.01, 0.02 if rate <= limit else 5.0, 0)

    return run


@pytest.mark.parametrize("guess", [5, 80, 120, 2000])
def test_the_highest_rate_is_found_from_any_guess(guess):
    goal, measured = Goal(0.1), MeasuredCandidate(Candidate(max_batch_size=1), guess)
    search_rate(trial_of(100), measured, goal, guess, float("inf"))

    if guess in (80, 120):
        assert 80 <= measured.rate(goal) <= 100
    assert len(measured.trials) <= 7


def test_the_page_has_the_plots():
    outcome = search(PlantedLab(lambda size, threads: 0.02 + 0.002 * size), 0.12)
    page = tune_page("m", outcome)

    for title in ("Latency against throughput", "Predictions and measurements"):
        assert f"<h2>{title}</h2>" in page
    assert page.count("<svg") >= 3


def test_times_of_a_slow_model_are_in_seconds():
    probe = Probe(threads=0, curve=CostCurve([batch(1, 1.2), batch(2, 2.4)]), cpu=1, idle_bytes=0)
    best = MeasuredCandidate(OWN, 1, [Trial(1, 1, 2.5, 2.5, 0)])
    outcome = Outcome(Goal(2.0), OWN, measured=[best])

    assert "measured 1: 1.2 s, 2: 2.4 s" in cost_lines(probe)
    assert verdict("m", outcome).startswith("m: no settings keep a p99 of 2 s; the best was 2.5 s")


def test_high_rates_are_in_full():
    goal = Goal(0.1, 2e6)
    outcome = Outcome(goal, OWN, measured=[MeasuredCandidate(OWN, 1, [Trial(1, 1, 1, 1, 0)])])

    assert "at 2000000 requests/s" in verdict("m", outcome)
    assert "e+" not in as_text("m", outcome)


class FewAtOnce:
    """A server, and the client of it, that predicts at most *most* requests together."""

    def __init__(self, most):
        self.most, self.sent = most, []

    def usage(self):
        return ServerUsage(0, 0.0, 0.0)

    def send(self, count):
        self.sent.append(count)
        return Burst([batch(min(count, self.most), 0.01)], [])


def probed(server, deadline):
    order = ProbeOrder(
        path="m", model="m", options=TargetOptions(), sizes=SIZES, longest_s=9.0, deadline=deadline
    )
    return _Probing(order, server, server, lambda text: None).run()


@pytest.mark.parametrize(
    ("deadline", "why"),
    [
        (float("inf"), "are not predicted in batches: a service that streams or is async"),
        (0.0, r"only single requests could be timed \(10 ms each\), no batches; more --budget"),
    ],
    ids=["no batches", "no time"],
)
def test_a_service_without_batches_is_told_from_a_slow_one(monkeypatch, deadline, why):
    monkeypatch.setattr("servekit_bench.tune.probing.TIMED_S", 0.0)
    lab = PlantedLab(lambda size, threads: 0.01)
    lab.probe = lambda *_: probed(FewAtOnce(1), deadline)

    with pytest.raises(StartupError, match=why):
        search(lab, 0.1)


def test_threads_that_were_not_tried_are_counted():
    lab = PlantedLab(lambda size, threads: 0.01, cores=4)
    outcome = search(lab, 0.1, budget_s=0.0)

    assert "settings with 1 thread or more were not tried: no time left" in outcome.doubts


@pytest.mark.parametrize("text", [None, "size = 3"], ids=["missing", "faulty"])
def test_a_model_that_cannot_be_read_is_named_once(tmp_path, text):
    path = tmp_path / "nope"
    if text:
        path.mkdir()
        (path / "model.toml").write_text(text)
    with pytest.raises(StartupError) as refused:
        _manifest_of(str(path))

    assert str(refused.value).count(str(path)) == 1
