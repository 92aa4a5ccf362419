# SPDX-License-Identifier: Apache-2.0
import json
from xml.etree import ElementTree as ET

import pytest

from tests.benchmarks import options, publish, report, targets
from tests.benchmarks.cases import PHOTO, SUM, TENSORS
from tests.benchmarks.failed import LeftOut
from tests.benchmarks.figures import Sample
from tests.benchmarks.idle import IdleSample
from tests.benchmarks.machine import Machine
from tests.benchmarks.open_loop import SHARES, OpenSample, Outcome
from tests.benchmarks.results import Results
from tests.benchmarks.wrk import Load

MACHINE = Machine(
    cpu="a <CPU>", cores=2, memory_gib=8.0, kernel="6", python="3.11", wrk="4", load=0.0
)
RATES = {"servekit": 120.0, "mosec-1": 60.0, "mosec-32": 10.0, "nginx": 200.0}


def closed(case, rates, connections):
    load = {"requests": 9, "p50_ms": 1.0, "p99_ms": 2.0, "status_errors": 0, "socket_errors": 0}
    return [
        Sample.of(key, case.key, connections, Load(requests_per_s=rate, **load), 0.1).in_round(1)
        for key, rate in rates.items()
    ]


@pytest.fixture
def results():
    chosen = options.parse(["--rounds", "1"])
    servers = dict.fromkeys(options.servers(chosen), "1.0")
    found = Results(machine=MACHINE, plan=options.plan(chosen), servers=servers, cases=[SUM])
    found.closed = [s for level in (1, 32) for s in closed(SUM, RATES, level)]
    outcome = Outcome(latencies_s=[0.001], late_s=[0.0])
    found.open = [OpenSample.of("servekit", 1, share, 1e4, outcome) for share in SHARES]
    found.idle = [IdleSample(server="servekit", round=1, start_s=1.2, pss_mb=90.0, processes=4)]
    found.left_out = [LeftOut("MLServer", "raw", "JSON only")]
    return found


@pytest.mark.parametrize(
    ("title", "measured", "is_reached"),
    [
        pytest.param("small JSON: servekit / mosec with the same batching, c=1", 12.0, True),
        pytest.param("small JSON: servekit / mosec at its better, c=1", 2.0, True),
        pytest.param("small JSON: servekit / mosec at its better, c=32", 2.0, False),
        pytest.param("small JSON: servekit / nginx, c=32", 0.6, True),
        pytest.param("small JSON: median latency, servekit / nginx, c=1", 1.0, True),
        pytest.param("602,112 B raw: servekit / mosec at its better, c=8", None, None),
        pytest.param("servekit start to first answer, warm cache, s", 1.2, False),
        pytest.param("servekit's idle tree, PSS in MB", 90.0, True),
    ],
)
def test_a_target_is_judged(results, title, measured, is_reached):
    (judged,) = [target for target in targets.judge(results) if target["title"] == title]

    assert (judged["measured"], judged["is_reached"]) == (measured, is_reached)


def test_the_report_has_every_section(results):
    text = report.markdown(results, targets.judge(results))
    sections = [line for line in text.splitlines() if line.startswith("## ")]

    assert [section.split(":")[0] for section in sections] == [
        "## Closed loop",
        "## Open loop",
        "## Start-up and memory",
        "## Left out",
        "## Targets",
    ]
    assert "- MLServer, raw: JSON only" in text
    assert "not measured" in text


def test_publishing_replaces_what_was_there(results, tmp_path):
    (tmp_path / "old.svg").touch()
    publish.write(results, targets.judge(results), "the report\n", tmp_path)
    charts = sorted(file.name for file in tmp_path.glob("*.svg"))
    page = (tmp_path / "README.md").read_text()

    assert charts == ["open-loop.svg", "start-up-and-memory.svg", "sum-json-16.svg"]
    assert all(f"]({name})" in page for name in charts)
    assert len(json.loads((tmp_path / "results.json").read_text())["closed_loop"]) == 8
    for name in charts:
        ET.parse(tmp_path / name)


@pytest.mark.parametrize(
    ("argv", "keys", "cases"),
    [
        pytest.param([], ["servekit", "mosec-1", "mosec-32", "nginx"], [SUM, PHOTO], id="default"),
        pytest.param(["--servers", "mosec-32"], ["mosec-32"], [SUM, PHOTO], id="one of two"),
        pytest.param(["--servers=flask", "--workloads=start-up"], ["flask"], [], id="no load"),
        pytest.param(
            ["--servers=nginx", "--workloads=tensors", "--tensors=all"],
            ["nginx"],
            list(TENSORS),
            id="every tensor",
        ),
    ],
)
def test_options_choose_servers_and_cases(argv, keys, cases):
    chosen = options.parse(argv)

    assert [server.key for server in options.servers(chosen)] == keys
    assert options.cases(chosen) == cases


def test_all_is_every_server_with_every_workload():
    chosen = options.parse(["--all"])

    assert options.servers(chosen) == list(options.SERVERS)
    assert set(chosen.workloads) == set(options.WORKLOADS)


def test_a_name_that_is_unknown_is_refused(capsys):
    with pytest.raises(SystemExit):
        options.parse(["--servers", "mosek"])

    assert "mosek is none of" in capsys.readouterr().err
