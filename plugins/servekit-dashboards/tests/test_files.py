# SPDX-License-Identifier: Apache-2.0
"""The files without Grafana and Prometheus: what they name is there."""

import argparse
import json
import re
from pathlib import Path

import pytest
import yaml
from servekit_dashboards.alerts import ALERTS, RECORDINGS
from servekit_dashboards.command import configure
from servekit_dashboards.files import DASHBOARDS, Targets, files

from servekit.errors import StartupError

DOCS = Path(__file__).parents[3] / "docs"
TARGETS = Targets("models", ["a:8080", "b:8080"])
TEXTS = files(TARGETS)
JSON = {path: json.loads(text) for path, text in TEXTS.items() if path.endswith(".json")}
KNOWN = set(re.findall(r"^\| `(\w+)` \| \w+ \|", (DOCS / "metrics.md").read_text(), re.MULTILINE))
SERIES = re.compile(r"\b(?:servekit|flask)_\w+")


def names_in(expr):
    """Return the series of *expr* as the page of metrics names them, without recorded ones."""
    recorded = re.sub(r"model:servekit_\w+:\w+", "", expr)
    return {re.sub("_(bucket|sum|count)$", "", name) for name in SERIES.findall(recorded)}


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("path", JSON)
def test_ids_are_unique_and_panels_do_not_overlap(path):
    found = JSON[path]["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in found)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len({panel["id"] for panel in found}) == len(found)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


@pytest.mark.parametrize("path", JSON)
def test_each_panel_says_what_it_shows_and_uses_only_variables_that_are_there(path):
    dashboard = JSON[path]
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    for panel in panels(dashboard):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard)))

    assert used - {"__rate_interval", "__all", "__field", "__url_time_range"} <= variables
    assert dashboard["schemaVersion"] >= 39


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)
def test_every_series_of_a_panel_is_documented(dashboard):
    used = {
        name
        for panel in dashboard.panels
        for query in panel.queries
        for name in names_in(query.expr)
    }

    assert used <= KNOWN
    assert used


def test_every_series_of_a_rule_is_documented_or_recorded():
    recorded = {each.name for each in RECORDINGS}
    for rule in (*ALERTS, *RECORDINGS):
        assert names_in(rule.expr) <= KNOWN, rule.name
        assert set(re.findall(r"model:\w+:\w+", rule.expr)) <= recorded, rule.name


def test_the_page_lists_the_alerts_and_dashboards():
    page = (DOCS / "dashboards.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `(Servekit\w+)` \| (\w+) \|", page, re.MULTILINE) == [
        (alert.name, alert.severity) for alert in ALERTS
    ]
    assert re.findall(r"^\| `(servekit: \w+)` \|", page, re.MULTILINE) == [
        each.title for each in DASHBOARDS
    ]


def test_every_command_that_a_text_names_exists():
    texts = [alert.runbook for alert in ALERTS]
    texts += [panel.description for each in DASHBOARDS for panel in each.panels]
    named = set(re.findall(r"`servekit (\w+)", " ".join(texts)))
    page = (DOCS / "cli.md").read_text(encoding="utf-8")

    assert named <= set(re.findall(r"^## `servekit (\w+)`", page, re.MULTILINE))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_the_page_of_an_alert_exists(alert):
    page, _, section = alert.page.partition("#")
    text = (DOCS / page).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)

    assert not section or section in {title.lower().replace(" ", "-") for title in titles}


def test_the_job_and_the_servers_are_those_that_were_asked_for():
    scrape = yaml.safe_load(TEXTS["prometheus.yml"])["scrape_configs"][0]
    rules = yaml.safe_load(TEXTS["rules/servekit.yml"])

    assert scrape["job_name"] == "models"
    assert scrape["static_configs"] == [{"targets": ["a:8080", "b:8080"]}]
    assert 'job="models"' in rules["groups"][1]["rules"][0]["expr"]
    assert "JOB" not in TEXTS["rules/servekit.yml"]


def test_kubernetes_gets_the_same_rules_and_dashboards():
    monitor, rule, *maps = yaml.safe_load_all(TEXTS["kubernetes.yaml"])

    assert rule["spec"] == yaml.safe_load(TEXTS["rules/servekit.yml"])
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "http"
    for each, (path, dashboard) in zip(maps, JSON.items(), strict=True):
        assert json.loads(each["data"][Path(path).name]) == dashboard
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}


def run(*arguments):
    parser = argparse.ArgumentParser()
    call = configure(parser)
    return call(parser.parse_args(arguments))


def test_the_command_writes_all_files_and_never_over_others(tmp_path, capsys):
    target = tmp_path / "new" / "monitoring"
    assert run(str(target), "--json") == 0
    told = json.loads(capsys.readouterr().out)

    assert told["files"] == sorted(
        str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()
    )
    with pytest.raises(StartupError, match="is not an empty directory"):
        run(str(target))
    assert run(str(target), "--force", "--target", "gpu-1:80") == 0
    assert "gpu-1:80" in (target / "prometheus.yml").read_text()


def test_a_file_in_the_way_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(StartupError, match="taken: File exists"):
        run(str(tmp_path / "taken" / "below"))


@pytest.mark.parametrize("arguments", [["--target", "gpu-1"], ["--job", 'a"b']])
def test_what_would_break_a_file_is_refused(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run(str(tmp_path / "d"), *arguments)
    assert "is not" in capsys.readouterr().err


#: parts of dashboards that the classes leave out: those of Prometheus, and of newer versions
LEFT_OUT = {"definition", "step", "titleFormat", "textFormat", "mode"}


@pytest.mark.parametrize("path", JSON)
def test_grafana_reads_a_dashboard_as_it_is_meant(path):
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    read = json.loads(JSONEncoder().encode(models.Dashboard.from_json(JSON[path])))

    assert lost(JSON[path], read) <= LEFT_OUT


def lost(written, read):
    """Return the keys of *written* that *read* does not have; their values have to be equal."""
    if isinstance(written, dict):
        inner = (lost(value, read[key]) for key, value in written.items() if key in read)
        return (written.keys() - read.keys()).union(*inner)
    if isinstance(written, list):
        assert len(written) == len(read)
        return set().union(*map(lost, written, read))
    assert written == read
    return set()
