# SPDX-License-Identifier: Apache-2.0
"""Settings of single models, as their workers see them in a real server."""

import json
import os
import threading
from pathlib import Path

import pytest
from servekit_archiver import build_archive

from servekit.cli import main
from servekit.testing import ServedModel
from tests.waiting import wait_until

MODEL = Path(__file__).parent / "models" / "deployed"
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def serve_model():
    """Serve the model of this page with settings."""
    started = []

    def start(*assignments, environment=None, **settings):
        flags = settings | ({"set": assignments} if assignments else {})
        known = None if environment is None else os.environ | environment
        started.append(ServedModel(MODEL, environment=known, **flags))
        return started[-1].wait_ready()

    yield start
    for served in started:
        served.stop()


def seen(served, *names):
    """Return what one worker saw, and its variables *names*."""
    return served.predict(list(names)).prediction


def test_what_the_archive_says_is_the_default(serve_model):
    facts = seen(serve_model(), "MODE", "KEPT", "CUDA_VISIBLE_DEVICES")

    assert (facts["replicas"], facts["max_batch_size"]) == (1, 4)
    assert facts["options"] == {"greeting": "hello", "net": {"depth": 2, "width": 8}}
    assert (facts["MODE"], facts["KEPT"], facts["CUDA_VISIBLE_DEVICES"]) == ("plain", "yes", None)


def test_assignments_reach_the_workers(serve_model):
    served = serve_model(
        "deployed.replicas=2",
        "deployed.env.MODE=1.50",
        "deployed.options.net.depth=3",
        "deployed.batching.max_batch_size=2",
        "deployed.threads=3",
    )
    served.log.wait_for("worker_ready", replica=1)
    facts = seen(served, "MODE", "KEPT", "OMP_NUM_THREADS")

    assert (facts["replicas"], facts["max_batch_size"]) == (2, 2)
    assert facts["options"] == {"greeting": "hello", "net": {"depth": 3, "width": 8}}
    assert (facts["MODE"], facts["KEPT"]) == ("1.50", "yes")
    assert (facts["threads"], facts["OMP_NUM_THREADS"]) == (3, "3")


def test_a_general_number_of_replicas_gives_way_to_that_of_the_model(serve_model):
    assert seen(serve_model("deployed.replicas=1", replicas=2))["replicas"] == 1


def by_replica(served, count):
    """Return the devices that the replicas see."""
    found = {}

    def ask():
        facts = seen(served, "CUDA_VISIBLE_DEVICES")
        found[facts["replica"]] = facts["CUDA_VISIBLE_DEVICES"]

    def has_all():
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(found) == count

    wait_until(has_all, "every replica has answered")
    return found


@pytest.mark.parametrize(
    ("assignments", "environment", "expected"),
    [
        pytest.param(["devices=[0, 1]"], {}, {0: "0", 1: "1"}, id="one replica for each"),
        pytest.param(
            ["devices=[0, 1]", "replicas=3"], {}, {0: "0", 1: "1", 2: "0"}, id="round robin"
        ),
        pytest.param(["devices=cpu"], {"CUDA_VISIBLE_DEVICES": "4"}, {0: ""}, id="hidden"),
        pytest.param(
            ["devices=auto"], {"CUDA_VISIBLE_DEVICES": "4,6"}, {0: "4", 1: "6"}, id="auto"
        ),
    ],
)
def test_each_replica_sees_its_device(serve_model, assignments, environment, expected):
    given = [f"deployed.{text}" for text in assignments]
    served = serve_model(*given, environment=environment)

    assert by_replica(served, len(expected)) == expected


def test_a_worker_that_dies_is_replaced_on_its_device(serve_model):
    served = serve_model("deployed.devices=[4, 6]")
    served.kill_worker(1)
    served.log.wait_for("worker_ready", replica=1, generation=2)

    assert by_replica(served, 2) == {0: "4", 1: "6"}


def test_a_variable_is_passed_to_the_model_that_asks_and_not_said_to_be_withheld(serve_model):
    environment = {"HF_TOKEN": "secret", "HF_OTHER": "x", "AWS_PROFILE": "y"}
    served = serve_model("deployed.pass_env=['HF_TO*']", environment=environment)
    facts = seen(served, "HF_TOKEN", "HF_OTHER")
    (said,) = [e for e in served.log.find("variables_withheld") if e["level"] == "info"]

    assert (facts["HF_TOKEN"], facts["HF_OTHER"]) == ("secret", None)
    assert "HF_TOKEN" not in said["variables"]
    assert {"HF_OTHER", "AWS_PROFILE"} <= set(said["variables"])


def test_the_operator_sees_each_value_and_where_it_is_from(serve_model, tmp_path_factory, capsys):
    run_dir = tmp_path_factory.mktemp("r")
    serve_model("deployed.options.net.depth=3", replicas=2, run_dir=run_dir)
    status = main(["models", "show", "deployed", "--json", "--run-dir", str(run_dir)])
    shown = json.loads(capsys.readouterr().out)["settings"]
    found = {row["name"]: (row["value"], row["source"]) for row in shown}

    assert status == 0
    assert found["replicas"] == (2, "--replicas")
    assert found["batching.max_batch_size"] == (4, "archive")
    assert found["batching.max_delay_ms"] == (0, "default")
    assert (found["options.net.depth"], found["options.net.width"]) == (
        (3, "--set"), (8, "archive"),
    )  # fmt: skip
    assert found["path"] == (str(MODEL), "--models")


def test_a_table_with_a_path_serves_a_model_of_another_name(serve, tmp_path):
    build_archive(MODEL, tmp_path / "deployed.mar")
    (tmp_path / "servekit.toml").write_text(
        '[models.one]\npath = "deployed.mar"\noptions = { greeting = "hi" }\n'
        f'[models.two]\npath = "{MODEL}"\n'
    )
    server = serve("--config", tmp_path / "servekit.toml")

    for name, greeting in ("one", "hi"), ("two", "hello"):
        status, _, body = server.post(f"/{name}/predict", b"[]")
        assert (status, json.loads(body)["prediction"]["options"]["greeting"]) == (200, greeting)


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        pytest.param("deploid.replicas=2", "did you mean 'deployed'?", id="misspelt name"),
        pytest.param("deployed.replcas=2", "did you mean 'replicas'?", id="misspelt key"),
        pytest.param("deployed.stages.a.replicas=2", "has no such stage", id="unknown stage"),
    ],
)
def test_a_setting_of_nothing_ends_the_start(run, assignment, complaint):
    done = run("servekit", "start", MODEL, "--port", "0", "--set", assignment)

    assert (done.returncode, complaint in done.stderr) == (3, True)
