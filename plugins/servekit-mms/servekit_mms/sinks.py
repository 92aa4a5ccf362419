# SPDX-License-Identifier: Apache-2.0
"""Where the metrics of MMS are written: the log, CSV files, or a file for CloudWatch.

Runs in: observer.
"""

from __future__ import annotations

import csv
import logging
import os
from collections import defaultdict
from functools import partial
from time import gmtime, strftime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servekit_mms.metrics import Row, Sink

__all__ = ["CLOUDWATCH", "CSV", "LOG", "log", "sink_of", "write_csv", "write_emf", "write_log"]

LOG, CSV, CLOUDWATCH = "log", "csv", "cloudwatch"
NAMESPACE: Final = "MXNetModelServer"
HEADER: Final = ("timestamp", "host", "model_name", "value", "unit")
EMF_FILE: Final = "mms_cloudwatch.log"
#: the units of CloudWatch; its megabytes and gigabytes are those of MMS
UNITS: Final = {
    "count": "Count",
    "ms": "Milliseconds",
    "percent": "Percent",
    "MB": "Megabytes",
    "GB": "Gigabytes",
}
MS_PER_S: Final = 1000
DECIMALS: Final = 4  #: digits after the point, in the log and in the tables

log = logging.getLogger("servekit_mms.metrics")


def sink_of(kind: str, directory: Path) -> Sink:
    """Return what writes metrics: to the log, or below *directory*, which is made."""
    if kind == LOG:
        log.setLevel(logging.INFO)
        return write_log
    directory.mkdir(parents=True, exist_ok=True)
    return partial(write_csv if kind == CSV else write_emf, directory)


def write_log(_when: float, _host: str, rows: Sequence[Row]) -> None:
    """Write a line for each of *rows*."""
    for row in rows:
        of = f" of {row.model}" if row.model else ""
        log.info("metric %s%s: %s %s", row.name, of, _shown(row.value), row.unit)


def write_csv(directory: Path, when: float, host: str, rows: Sequence[Row]) -> None:
    """Append each of *rows* to the file of its name, ``mms_PredictionTotal.csv``.

    :raises OSError: the disk is full, or the directory is gone.
    """
    moment = strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(when))
    for row in rows:
        with (directory / f"mms_{row.name}.csv").open("a", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            if file.tell() == 0:
                lines.writerow(HEADER)
            lines.writerow((moment, host, row.model, _shown(row.value), row.unit))


def write_emf(directory: Path, when: float, host: str, rows: Sequence[Row]) -> None:
    """Append a JSON line for each model, and one for the host, in CloudWatch's embedded format.

    :raises OSError: the disk is full, or the directory is gone.
    """
    by_model: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row)
    lines = [_emf_line(when, host, model, each) for model, each in by_model.items()]
    content = msgspec.json.Encoder().encode_lines(lines)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    descriptor = os.open(directory / EMF_FILE, flags, 0o644)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        file.write(content)


def _emf_line(when: float, host: str, model: str, rows: Sequence[Row]) -> dict[str, Any]:
    dimensions = {"host": host, **({"model_name": model} if model else {})}
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": row.name, "Unit": UNITS[row.unit]} for row in rows],
    }
    about = {"Timestamp": int(when * MS_PER_S), "CloudWatchMetrics": [directive]}
    return {"_aws": about, **dimensions, **{row.name: row.value for row in rows}}


def _shown(value: float) -> str:
    """Return *value* with all digits before the point."""
    return f"{round(value, DECIMALS):.12g}"
