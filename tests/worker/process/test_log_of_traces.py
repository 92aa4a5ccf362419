# SPDX-License-Identifier: Apache-2.0
"""Lines about requests that belong to traces name these."""

import json
import logging
from types import SimpleNamespace

import pytest

from servekit.worker.process import log


@pytest.fixture(params=[False, True], ids=["text", "json"])
def logger(request, monkeypatch):
    """A logger as services have it, whose current batch is of one trace."""
    for name in ("_is_json", "_current"):
        monkeypatch.setattr(log, name, getattr(log, name))
    current = SimpleNamespace(ids=lambda: ["r"], trace_ids=lambda: ["0af7"])
    name = f"traced-{request.param}"
    log.attach(name, "info", is_json=request.param, current=lambda: current)
    found = logging.getLogger(name)
    yield found
    found.handlers.clear()


def test_a_line_of_a_service(logger, capfd):
    logger.warning("no %s", "weights")
    said = capfd.readouterr().err

    if said.startswith("{"):
        line = json.loads(said)
        assert (line["request_ids"], line["trace_ids"]) == (["r"], ["0af7"])
    else:
        assert said == "warning: trace 0af7: no weights\n"


@pytest.mark.usefixtures("logger")
def test_a_failure(capfd):
    log.report("predict failed", None, ["r"])
    said = capfd.readouterr().err

    if said.startswith("{"):
        assert json.loads(said)["trace_ids"] == ["0af7"]
    else:
        assert said.startswith("predict failed for 1 request(s): r (trace 0af7)")
