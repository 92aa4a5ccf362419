# SPDX-License-Identifier: Apache-2.0
"""The history in the observer: bounded, and passed on from one observer to the next."""

from math import isnan
from time import time

import pytest
from servekit_console.history import (
    FIELDS,
    KEPT_S,
    MAX_SAMPLED,
    MAX_TRACES,
    POINTS,
    History,
)
from servekit_console.samples import VersionSample, rates_between
from servekit_console.sparklines import spark_path

from servekit.extension import DURATIONS, RequestTraced


def sample(responses, errors=0, *, refused=0, model="digits", fast=0, slow=0, batches=0):
    durations = [0] * (len(DURATIONS) + 1)
    durations[3], durations[9] = fast, slow  # up to 1 ms, up to 100 ms
    return VersionSample(
        model, "1.0", responses, refused, errors, durations, 4 * batches, batches,
        0.1 * batches, 0.2 * batches, 3, 2,
    )  # fmt: skip


def trace(request_id="r-1", duration_s=1.0, model="digits", age_s=1.0, reason="slow"):
    return RequestTraced(
        time_s=time() - age_s, request_id=request_id, traceparent="", parent_span="", model=model,
        version="1.0", method="POST", path="/digits/predict", status=200, reason=reason,
        duration_s=duration_s, spans=[], batches=[],
    )  # fmt: skip


def test_rates_are_those_between_two_samples():
    before = sample(100, 1, fast=10)
    after = sample(300, 2, refused=30, fast=110, slow=1, batches=50)
    rates = rates_between({before.key: before}, [after], 10.0)["digits/1.0"]

    assert (rates.requests_per_s, rates.refused_per_s, rates.errors_per_s) == (20.0, 3.0, 0.1)
    assert 0.0005 < rates.p50_s < 0.001
    assert rates.p99_s < 0.1
    assert (rates.batch_size, rates.queue_s, rates.predict_s) == pytest.approx((4, 0.1, 0.2))
    assert (rates.waiting, rates.running) == (3, 2)


def test_without_requests_there_is_no_latency():
    rates = rates_between({"digits/1.0": sample(1)}, [sample(1)], 10.0)["digits/1.0"]

    assert (rates.p50_s, rates.batch_size, rates.requests_per_s) == (None, None, 0.0)


def test_a_version_that_is_new_has_no_rates():
    assert rates_between({}, [sample(1)], 10.0) == {}


def test_the_history_has_a_point_for_each_sample_but_the_first():
    history = History()
    for now in range(4):
        history.add_samples(10.0 * now, [sample(100 * now)])
    page = history.page(["requests_per_s", "p50_s"])

    assert list(page.times) == [10.0, 20.0, 30.0]
    assert list(page.values("digits/1.0", "requests_per_s")) == [10.0] * 3
    assert all(map(isnan, page.values("digits/1.0", "p50_s")))
    assert list(page.values("other/1.0", "p50_s")) == []


def test_the_history_is_bounded_and_forgets_versions_that_are_gone():
    history = History()
    for now in range(POINTS + 9):
        gone = [sample(0, model="gone")] if now < 3 else []
        history.add_samples(10.0 * now, [sample(now), *gone])
    page = history.page(["waiting"])

    assert list(page.series) == ["digits/1.0"]
    assert len(page.values("digits/1.0", "waiting")) == len(page.times) == POINTS


def test_the_slowest_requests_come_first_and_old_ones_are_left_out():
    history = History()
    for one in (
        trace("a", 1.0),
        trace("b", 3.0),
        trace("c", 2.0, model="other"),
        trace("d", 9.0, age_s=99_999),
    ):
        history.add_trace(one)

    assert [each.request_id for each in history.traces("", 9)] == ["b", "c", "a"]
    assert [each.request_id for each in history.traces("digits", 1)] == ["b"]
    assert history.trace("c").model == "other"
    assert history.trace("none") is None


def test_sampled_requests_take_no_room_from_slow_ones():
    history = History()
    history.add_trace(trace("slow", 9.0))
    for number in range(1000):
        history.add_trace(trace(f"r-{number}", float(number % 500), reason="sampled"))

    assert len(history.traces("", 9999)) <= 1 + 2 * MAX_SAMPLED
    assert [each.duration_s for each in history.traces("", 5)] == [
        499.0,
        499.0,
        498.0,
        498.0,
        497.0,
    ]
    assert history.trace("slow") is not None
    assert history.trace("r-999") is not None


def test_a_busy_model_takes_no_room_from_a_slow_one():
    history = History()
    history.add_trace(trace("slow", 30.0, model="slow"))
    for number in range(5 * MAX_TRACES):
        history.add_trace(trace(f"r-{number}", 0.001, model="busy", age_s=number % KEPT_S))

    assert [each.request_id for each in history.traces("", 1)] == ["slow"]


def test_fast_requests_take_no_room_from_a_slow_one_of_the_same_model():
    history = History()
    history.add_trace(trace("slow", 30.0, age_s=KEPT_S - 1))
    for number in range(5 * MAX_TRACES):
        history.add_trace(trace(f"r-{number}", 0.001, age_s=number % KEPT_S))

    assert [each.request_id for each in history.traces("", 1)] == ["slow"]


def test_slow_requests_of_many_models_are_bounded():
    history = History()
    for number in range(5 * MAX_TRACES):
        model = f"m-{number % 200}"
        history.add_trace(trace(f"r-{number}", float(number), model=model, age_s=number % KEPT_S))
    found = history.traces("", 9 * MAX_TRACES)

    assert len(found) == MAX_TRACES
    assert found[0].request_id == f"r-{5 * MAX_TRACES - 1}"
    assert {each.model for each in found} == {f"m-{number}" for number in range(200)}


def test_slow_requests_of_more_models_than_room_are_bounded():
    history = History()
    for number in range(3 * MAX_TRACES):
        history.add_trace(trace(f"r-{number}", model=f"m-{number}"))

    assert len(history.traces("", 9 * MAX_TRACES)) == MAX_TRACES


def test_slow_requests_are_forgotten_after_a_while():
    history = History()
    history.add_trace(trace("old", age_s=2 * KEPT_S))
    history.add_trace(trace("new", model="other"))

    assert [history.trace(each) is not None for each in ("old", "new")] == [False, True]


def test_the_next_observer_takes_the_history_over(tmp_path):
    first, second = History(), History()
    first.add_samples(0.0, [sample(0)])
    first.add_samples(10.0, [sample(50)])
    first.add_trace(trace("kept"))
    first.write(tmp_path / "history")
    second.read(tmp_path / "history")

    assert second.page(FIELDS) == first.page(FIELDS)
    assert second.trace("kept").request_id == "kept"


@pytest.mark.parametrize("content", [None, b"", b"\x93\x01"])
def test_a_history_that_cannot_be_read_is_an_empty_one(tmp_path, content):
    if content is not None:
        (tmp_path / "history").write_bytes(content)
    history = History()
    history.read(tmp_path / "history")

    assert list(history.page(FIELDS).times) == []


@pytest.mark.parametrize(
    ("values", "path"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([0.0, 0.0], "", id="zeros"),
        pytest.param([0.0, 4.0], "M88 19.0L89 1.0", id="the highest is at the top"),
        pytest.param([1.0, float("nan"), 1.0], "M87 1.0M89 1.0", id="a gap where nothing is known"),
        pytest.param([9.0] * 200, "M0 1.0", id="the last points are shown"),
    ],
)
def test_a_sparkline_ends_at_the_right(values, path):
    assert spark_path(values).startswith(path)
    assert spark_path(values).count("L") <= 89
