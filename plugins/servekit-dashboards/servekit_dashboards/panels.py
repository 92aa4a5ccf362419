# SPDX-License-Identifier: Apache-2.0
"""The parts of a dashboard, without the details of Grafana's JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "DOCS",
    "Dashboard",
    "Panel",
    "PanelRow",
    "Query",
    "fleet_rate_by",
    "in_an_hour",
    "of_fleet",
    "of_model",
    "p99_by",
    "quantiles",
    "rate_by",
    "sum_by",
]

DOCS = "https://github.com/servekit/servekit/blob/main/docs/"

#: the label matchers of a query of one model
OF_MODEL = 'job="$job", instance=~"$instance", model=~"$model", version=~"$version"'
#: the same for a query of all models
OF_FLEET = 'job="$job", instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel, and how its series are named."""

    expr: str
    legend: str = ""  #: with labels in ``{{}}``
    has_exemplars: bool = False  #: shows the traces of single requests


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture."""

    title: str
    unit: str  #: as Grafana calls it: ``reqps``, ``s``, ``percentunit``, ``bytes``, ``short``
    description: str  #: what it shows, and what to do
    queries: tuple[Query, ...]
    kind: str = "timeseries"  #: or ``stat``, ``heatmap``, ``table``
    width: int = 8  #: of 24
    is_stacked: bool = False
    #: why there may be no series, shown in their place; "": there always are some
    empty: str = ""
    #: from which value on a stat is yellow, and red
    warns_at: float | None = None
    fails_at: float | None = None


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Panels below a headline."""

    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    description: str
    rows: tuple[PanelRow, ...]
    #: variables besides the data source, the job and the instance: name to the series whose
    #: label of that name has the values
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[Panel]:
        """All of them, in order."""
        return [panel for row in self.rows for panel in row.panels]


def of_model(text: str) -> str:
    """Return the expression *text* with ``@`` replaced by the matchers of one model.

    ``RATE`` is the range of rates that fits the zoom.
    """
    return text.replace("@", OF_MODEL).replace("RATE", "$__rate_interval")


def of_fleet(text: str) -> str:
    """Return the expression *text* with ``@`` replaced by the matchers of the chosen servers."""
    return text.replace("@", OF_FLEET).replace("RATE", "$__rate_interval")


def quantiles(series: str, by: str = "", has_exemplars: bool = False) -> tuple[Query, ...]:
    """Return the 50th, 90th and 99th percentiles of the histogram *series* of one model.

    :param by: a label that tells several lines apart.
    """
    labels, legend = (f"le, {by}", f" {{{{{by}}}}}") if by else ("le", "")
    return tuple(
        Query(
            of_model(
                f"histogram_quantile({q}, sum by ({labels}) (rate({series}_bucket{{@}}[RATE])))"
            ),
            f"p{round(q * 100)}{legend}",
            has_exemplars and q == 0.99,
        )
        for q in (0.5, 0.9, 0.99)
    )


def rate_by(label: str, series: str, *more: str) -> tuple[Query, ...]:
    """Return the rate of the counter *series*, of one model, one line for each value of *label*.

    :param more: further matchers.
    """
    return (_rate(of_model, label, series, more),)


def fleet_rate_by(label: str, series: str, *more: str) -> tuple[Query, ...]:
    """Do the same for all models of the chosen servers."""
    return (_rate(of_fleet, label, series, more),)


def _rate(scope: Callable[[str], str], label: str, series: str, more: Sequence[str]) -> Query:
    matchers = ", ".join(("@", *more))
    expr = f"sum by ({label}) (rate({series}{{{matchers}}}[RATE]))"
    return Query(scope(expr), f"{{{{{label}}}}}")


def in_an_hour(labels: str, series: str, legend: str) -> tuple[Query, ...]:
    """Return how much the counter *series* of all models grew, where it did."""
    expr = of_fleet(f"sum by ({labels}) (increase({series}{{@}}[1h])) > 0")
    return (Query(expr, legend),)


def sum_by(label: str, series: str, legend: str = "") -> tuple[Query, ...]:
    """Return the sum of the gauge *series* of one model, one line for each value of *label*."""
    expr = of_model(f"sum by ({label}) ({series}{{@}})")
    return (Query(expr, legend or f"{{{{{label}}}}}"),)


def p99_by(label: str, series: str) -> tuple[Query, ...]:
    """Return the 99th percentile of the histogram *series* of one model, by *label*."""
    rates = f"sum by (le, {label}) (rate({series}_bucket{{@}}[RATE]))"
    return (Query(of_model(f"histogram_quantile(0.99, {rates})"), f"{{{{{label}}}}}"),)
