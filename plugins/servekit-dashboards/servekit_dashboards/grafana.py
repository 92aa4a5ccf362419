# SPDX-License-Identifier: Apache-2.0
"""Dashboards as Grafana reads them: JSON of its schema 39 (Grafana 11 and later)."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from servekit_dashboards.panels import DOCS, Dashboard, Panel, PanelRow, Query

__all__ = ["grafana_json"]

SCHEMA = 39
TAG = "servekit"
WIDTH = 24  #: columns of a dashboard
HEIGHTS = {"stat": 4, "timeseries": 8, "heatmap": 8}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BLUE, GREEN, YELLOW, RED = "blue", "green", "yellow", "red"

Json = dict[str, Any]


def grafana_json(dashboard: Dashboard, job: str) -> Json:
    """Return *dashboard* for servers that Prometheus scrapes as *job*."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "links": list(_links()),
        "templating": {"list": list(_variables(dashboard, job))},
        "annotations": {"list": list(_annotations())},
        "panels": list(_panels(dashboard)),
    }


def _links() -> Iterator[Json]:
    yield {
        "type": "dashboards",
        "title": "servekit",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }
    yield {
        "type": "link",
        "title": "What the metrics mean",
        "url": f"{DOCS}metrics.md",
        "icon": "doc",
        "targetBlank": True,
    }


def _variables(dashboard: Dashboard, job: str) -> Iterator[Json]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }
    yield {
        "name": "job",
        "label": "Job",
        **_query("label_values(servekit_build_info, job)"),
        "current": {"text": job, "value": job},
    }
    yield _choice("instance", 'servekit_build_info{job="$job"}', "Server")
    for name, series in dashboard.variables.items():
        yield _choice(name, series, name.capitalize())


def _choice(name: str, series: str, label: str) -> Json:
    """Return a variable with the values of a label of *series*; several may be chosen, or all."""
    return {
        "name": name,
        "label": label,
        **_query(f"label_values({series}, {name})"),
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _query(query: str) -> Json:
    return {
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "Variable", "qryType": 1},
        "refresh": 2,
        "sort": 1,
    }


def _annotations() -> Iterator[Json]:
    """Yield what is marked in all panels: starts of servers, and operations."""
    chosen = 'job="$job", instance=~"$instance"'
    operations = f"increase(servekit_operations_total{{{chosen}}}[1m])"
    for name, color, expr in (
        ("Starts", BLUE, f"changes(servekit_start_time_seconds{{{chosen}}}[1m]) > 0"),
        ("Operations", GREEN, f"sum by (kind, result) ({operations}) > 0"),
    ):
        yield {
            "name": name,
            "enable": True,
            "iconColor": color,
            "datasource": SOURCE,
            "expr": expr,
            "step": "60s",
            "titleFormat": name,
            "textFormat": "{{instance}}{{kind}} {{result}}",
        }


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    numbers, y = count(1), 0
    for row in dashboard.rows:
        yield {
            "id": next(numbers),
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            "panels": [],
        }
        y += 1
        for panel, x, line in _placed(row):
            height = HEIGHTS[panel.kind]
            position = {"x": x, "y": y + line * height, "w": panel.width, "h": height}
            yield {"id": next(numbers), "gridPos": position, **_panel(panel)}
        y += (line + 1) * height


def _placed(row: PanelRow) -> Iterator[tuple[Panel, int, int]]:
    """Yield each panel of *row* with its column and its line."""
    x = line = 0
    for panel in row.panels:
        if x + panel.width > WIDTH:
            x, line = 0, line + 1
        yield panel, x, line
        x += panel.width


def _panel(panel: Panel) -> Json:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [
            _target(query, panel.kind, chr(ord("A") + number))
            for number, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": OPTIONS[panel.kind],
    }


OPTIONS: dict[str, Json] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"]},
        "colorMode": "value",
        "graphMode": "area",
    },
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "s"},
        "color": {"mode": "scheme", "scheme": "Blues", "exponent": 0.5, "steps": 64},
        "cellGap": 1,
        "tooltip": {"mode": "single", "yHistogram": True},
    },
}


def _target(query: Query, kind: str, name: str) -> Json:
    return {
        "refId": name,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "range": kind != "stat",
        "instant": kind == "stat",
        "exemplar": query.has_exemplars,
        "format": "heatmap" if kind == "heatmap" else "time_series",
    }


def _defaults(panel: Panel) -> Json:
    found: Json = {"unit": panel.unit, "noValue": panel.empty or "no data"}
    if panel.kind == "timeseries":
        found["min"] = 0
        found["custom"] = {
            "fillOpacity": 25 if panel.is_stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.is_stacked else "none", "group": "A"},
        }
    if panel.kind == "stat":
        steps: list[Json] = [{"color": GREEN, "value": None}]
        steps += [
            {"color": color, "value": value}
            for color, value in ((YELLOW, panel.warns_at), (RED, panel.fails_at))
            if value is not None
        ]
        found["thresholds"] = {"mode": "absolute", "steps": steps}
    if any("{{model}}" in query.legend for query in panel.queries):
        url = "/d/servekit-model?var-model=${__field.labels.model}&${__url_time_range}"
        found["links"] = [{"title": "Show this model", "url": url}]
    return found
