# SPDX-License-Identifier: Apache-2.0
"""The load generators that ``servekit bench`` is compared with."""

import json

import pytest

from tests.benchmarks.errors import BenchmarkError
from tests.benchmarks.generators.generators import PerfAnalyzer, parse_perf_analyzer
from tests.benchmarks.generators.subjects import INFER, subjects

PRINTED = """
Request concurrency: 8
  Client:
    Request count: 19343
    Throughput: 2649.65 infer/sec
    Avg latency: 3014 usec (standard deviation 3540 usec)
    p50 latency: 1336 usec
    p90 latency: 7770 usec
    p99 latency: 14155 usec
"""


def test_the_output_of_perf_analyzer_is_read():
    assert parse_perf_analyzer(PRINTED) == (2649.65, 1.336, 14.155)


def test_output_without_figures_is_an_error():
    with pytest.raises(BenchmarkError, match="Failed to obtain"):
        parse_perf_analyzer("Failed to obtain stable measurement.")


def test_perf_analyzer_is_asked_for_its_protocol_only():
    able = [each.server.key for each in subjects() if PerfAnalyzer().can_send(each.request)]

    assert able == ["oip"]


def test_the_header_of_a_binary_request_names_its_length():
    (request,) = [each.request for each in subjects() if each.server.key == "oip"]

    assert request.headers == (("Inference-Header-Content-Length", str(len(INFER))),)
    assert json.loads(request.body[: len(INFER)])["inputs"][0]["shape"] == [1, 4]
