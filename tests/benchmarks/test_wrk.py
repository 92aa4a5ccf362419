# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.benchmarks.errors import WrkFailed
from tests.benchmarks.wrk import parse

GOOD = """Running 2s test @ http://127.0.0.1:8012/sum/predict
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   150.30us  402.11us   9.46ms   97.41%
    Req/Sec    71.05k     3.20k   75.10k    90.00%
  Latency Distribution
     50%   99.00us
     75%  120.00us
     90%  180.00us
     99%    1.86ms
  142800 requests in 2.00s, 24.10MB read
Requests/sec:  71400.50
Transfer/sec:     12.05MB
"""
SOCKET_ERRORS = "  Socket errors: connect 1, read 20, write 300, timeout 4000\n"
STATUS_ERRORS = "  Non-2xx or 3xx responses: 35700\n"


def with_errors(lines):
    return GOOD.replace("Requests/sec", f"{lines}Requests/sec")


def test_a_good_run_is_read():
    load = parse(GOOD)

    assert (load.requests, load.requests_per_s, load.errors) == (142_800, 71_400.5, 0)
    assert (load.p50_ms, load.p99_ms) == (pytest.approx(0.099), 1.86)


@pytest.mark.parametrize(
    ("printed", "expected_ms"),
    [
        pytest.param("1.86us", 0.00186, id="microseconds"),
        pytest.param("1.86ms", 1.86, id="milliseconds"),
        pytest.param("1.86s", 1860.0, id="seconds"),
        pytest.param("1.86m", 111_600.0, id="minutes"),
    ],
)
def test_a_latency_is_read_in_its_unit(printed, expected_ms):
    load = parse(GOOD.replace("1.86ms", printed))

    assert load.p99_ms == pytest.approx(expected_ms)


@pytest.mark.parametrize(
    ("lines", "status_errors", "socket_errors", "good_per_s"),
    [
        pytest.param("", 0, 0, 71_400.5, id="none"),
        pytest.param(SOCKET_ERRORS, 0, 4321, 71_400.5, id="socket errors are added up"),
        pytest.param(STATUS_ERRORS, 35_700, 0, 53_550.375, id="a bad answer is no request/s"),
        pytest.param(SOCKET_ERRORS + STATUS_ERRORS, 35_700, 4321, 53_550.375, id="both"),
    ],
)
def test_errors_are_counted_and_not_served(lines, status_errors, socket_errors, good_per_s):
    load = parse(with_errors(lines))

    assert (load.status_errors, load.socket_errors) == (status_errors, socket_errors)
    assert load.requests_per_s == pytest.approx(good_per_s)
    assert load.errors == status_errors + socket_errors


def test_a_server_that_never_answered_has_a_rate_of_zero():
    silent = GOOD.replace("142800 requests", "0 requests").replace("71400.50", "0.00")

    assert parse(silent).requests_per_s == 0.0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("unable to connect to 127.0.0.1:1", id="no connection"),
        pytest.param(GOOD.replace("     99%    1.86ms\n", ""), id="no 99th percentile"),
        pytest.param(GOOD.replace("Requests/sec", "Rate"), id="no rate"),
    ],
)
def test_output_that_cannot_be_read_is_refused(text):
    with pytest.raises(WrkFailed):
        parse(text)
