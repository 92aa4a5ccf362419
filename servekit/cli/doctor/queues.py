# SPDX-License-Identifier: Apache-2.0
"""Checks of the queues of a running server: each stage of each version has one."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from servekit.cli.doctor.live_server import LiveServer
from servekit.counting import counted
from servekit.extension.checks import Diagnosis

__all__ = ["full_queues", "refused_requests"]

FULL: Final = 0.8
REFUSED: Final = ("429", "503")
SHARE: Final = 0.01
WAITED: Final = "servekit_stage_queue_duration_seconds_sum"


def full_queues(live: LiveServer) -> Iterator[Diagnosis]:
    """Look at waiting requests."""
    for model in live.models:
        for version in (model, *model["versions"]):
            yield from _of_version(live, model, version)


def _of_version(
    live: LiveServer, model: dict[str, Any], version: dict[str, Any]
) -> Iterator[Diagnosis]:
    is_default = version is model
    for queue in version["queues"]:
        stage, waiting, capacity = queue.get("stage"), queue["waiting"], queue["capacity"]
        if waiting < capacity * FULL:
            continue
        name = model["name"] if is_default else f"{model['name']}/{version['version']}"
        replicas = [each for each in version["replicas"] if each.get("stage") == stage]
        options = f" --stage {stage}" if stage else ""
        options += "" if is_default else f" --version {version['version']}"
        whose = f"the queue of stage {stage}" if stage else "the queue"
        yield Diagnosis(
            severity="error" if waiting >= capacity else "warning",
            text=f"{name}: {waiting} of {capacity} places in {whose} are taken",
            meaning="Requests wait long, and are refused with a 429 when it is full.",
            fix=live.command(f"scale {model['name']} {len(replicas) + 1}{options}"),
        )


def refused_requests(live: LiveServer) -> Iterator[Diagnosis]:
    """Look at requests that were refused since the server started."""
    requests: Counter[tuple[str, bool]] = Counter()
    waited: dict[str, dict[str, float]] = {}  #: seconds in the queue of each stage, by model
    for family in text_string_to_metric_families(live.server.text("/metrics")):
        for sample in family.samples:
            labels = sample.labels
            if sample.name == "servekit_requests_total":
                requests[labels["model"], labels["status"] in REFUSED] += int(sample.value)
            elif sample.name == WAITED:
                stages = waited.setdefault(labels["model"], {})
                stages[labels["stage"]] = stages.get(labels["stage"], 0.0) + sample.value
    for name in sorted({name for name, _ in requests}):
        refused, total = requests[name, True], requests[name, True] + requests[name, False]
        if refused > total * SHARE:
            meaning, option = _reason(waited.get(name, {}))
            yield Diagnosis(
                severity="warning",
                text=f"{name}: {refused} of {counted(total, 'request')} were refused (429, 503)",
                meaning=meaning,
                fix=f"{live.command('top')}; {live.command(f'scale {name} N{option}')}",
            )


def _reason(waited: dict[str, float]) -> tuple[str, str]:
    """Return why requests of a model are refused, and the option for what to scale.

    :param waited: how long tasks have waited for each stage, if it has several.
    """
    meaning = "More requests come than the replicas answer, or none was ready."
    if not waited:
        return meaning, ""
    stage = max(waited, key=lambda each: waited[each])
    return f"{meaning} Requests wait longest for stage {stage}.", f" --stage {stage}"
