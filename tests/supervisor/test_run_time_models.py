# SPDX-License-Identifier: Apache-2.0
"""Models that were loaded at run time: their settings, and the end of a server that loads one."""

import signal
from itertools import count

import pytest
from servekit_archiver import build_archive

from servekit.ipc.operations import Load, Operate
from servekit.supervisor.models.saved_models import SavedModel, SavedVersion
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.operations.state_file import StateFile

pytestmark = pytest.mark.slow

LEAVE_S = 30.0  #: for a server that holds no request
NUMBERS = count()
TWO_REPLICAS = "[models.three]\nreplicas = 2\n"


def begin(control, operation):
    """Begin *operation*, and return its id."""
    id_ = f"o{next(NUMBERS)}"
    control.send(Operate(id_, operation))
    return id_


def replicas(table):
    """Return how many replicas of each model serve."""
    return {row.name: sum(replica.is_serving for replica in row.replicas) for row in table.models}


def test_the_server_ends_while_a_model_loads_for_the_first_time(start, model, tmp_path):
    lazy = build_archive(model("lazy", act="hang"), tmp_path / "lazy.mar").path
    server = start(model(), "--cache-dir", tmp_path / "cache")
    server.wait_for("serving")
    with server.control() as control:
        begin(control, Load(source=str(lazy)))
        server.wait_for("progress", subject="lazy", message="loading")
        server.signal(signal.SIGTERM)

    assert server.wait_exit(LEAVE_S) == 0
    assert not list(server.run_dir.glob("servekit-run-*"))


def test_the_configuration_may_have_settings_for_a_model_loaded_at_run_time(start, model, tmp_path):
    configured = f"[models.digits]\npath = '{model()}'\n"
    file = tmp_path / "servekit.toml"
    file.write_text(configured)
    server = start("--config", file)
    server.wait_for("serving")
    with server.control() as control:
        begin(control, Load(source=str(model("other")), model="three"))
        control.wait_for(lambda table: replicas(table) == {"digits": 1, "three": 1})
        file.write_text(configured + TWO_REPLICAS)
        server.signal(signal.SIGHUP)
        control.wait_for(lambda table: replicas(table) == {"digits": 1, "three": 2})

    assert not [event for event in server.events if event["event"] == "settings_refused"]


def test_the_configuration_may_have_settings_for_a_model_of_the_state_file(start, model, tmp_path):
    file, state = tmp_path / "servekit.toml", tmp_path / "state.json"
    file.write_text(f"[models.digits]\npath = '{model()}'\n{TWO_REPLICAS}")
    default = SavedVersion(VersionSource(str(model("other")), "three"), "1.0")
    StateFile(str(state), None).save([SavedModel(configured="", name="three", default=default)])
    server = start("--config", file, "--state", state)
    server.wait_for("serving")
    with server.control() as control:
        control.wait_for(lambda table: replicas(table) == {"digits": 1, "three": 2})
