# SPDX-License-Identifier: Apache-2.0
"""What a server of a deployment serves, and with which resources. No Ray."""

import pytest
from servekit_archiver import build_archive
from servekit_ray.order import device_settings, order_of
from servekit_ray.server import environment, flags
from servekit_ray.state import ServerOrder, ShippedModel

from servekit.errors import StartupError

MODEL = ShippedModel("a.mar", "1" * 64)
PLAIN = """\
name = "m"
version = "1.0"
service = "service:M"
"""
STAGES = """
pipeline = ["decode", "predict", "label"]
[stages.decode]
service = "service:M"
worker = { replicas = 2 }
[stages.label]
service = "service:M"
colocated = "decode"
"""


@pytest.fixture
def ordered(tmp_path):
    """Return a function that orders servers of a model with the given lines in its manifest."""

    def make(text="", model="", gpus=0.0, **options):
        (tmp_path / "m").mkdir()
        (tmp_path / "m" / "service.py").write_text("class M: pass\n")
        (tmp_path / "m" / "model.toml").write_text(PLAIN + text)
        build_archive(tmp_path / "m", tmp_path / "m.mar")
        given = {"replicas": 0, "cpus": None, "settings": (), "env": {}, "port": 0, **options}
        return order_of([model or str(tmp_path / "m.mar")], gpus=gpus, **given)

    return make


@pytest.mark.parametrize(
    ("text", "options", "workers"),
    [
        pytest.param("", {}, 1, id="one by default"),
        pytest.param("[worker]\nreplicas = 8\n", {}, 8, id="replicas of the manifest"),
        pytest.param("[worker]\nreplicas = 2\nranks = 2\n", {}, 4, id="ranks of the manifest"),
        pytest.param("[worker]\nreplicas = 8\n", {"replicas": 2}, 2, id="--replicas"),
        pytest.param("", {"env": {"SERVEKIT_REPLICAS": "4"}}, 4, id="SERVEKIT_REPLICAS"),
        pytest.param("", {"settings": ["m.replicas=8"]}, 8, id="--set"),
        pytest.param("", {"settings": ["m.replicas={ min = 1, max = 6 }"]}, 6, id="a range"),
        pytest.param("", {"replicas": 4, "settings": ["m.replicas=2"]}, 2, id="--set wins"),
        pytest.param("", {"settings": ["m.replicas=0"]}, 1, id="on demand"),
        pytest.param(STAGES, {}, 3, id="stages, of which one is colocated"),
        pytest.param(STAGES, {"replicas": 4}, 8, id="--replicas of each stage"),
        pytest.param(STAGES, {"settings": ["m.stages.decode.replicas=5"]}, 6, id="of a stage"),
        pytest.param("", {"gpus": 2.0}, 2, id="one for each GPU"),
        pytest.param("", {"model": "m=s3://bucket/m.mar"}, 1, id="a URL"),
        pytest.param("", {"model": "m=s3://bucket/m.mar", "replicas": 3}, 3, id="URL, replicas"),
    ],
)
def test_a_cpu_is_set_aside_for_each_worker(ordered, text, options, workers):
    order = ordered(text, **options)

    assert (order.workers, order.cpus) == (workers, workers)


def test_the_cpus_that_were_asked_for_are_set_aside_and_shared_by_the_workers(ordered):
    order = ordered("[worker]\nreplicas = 2\n", cpus=8)

    assert order.cpus == 8
    assert environment(order)["OMP_NUM_THREADS"] == "4"


def test_options_that_were_not_given_may_be_variables():
    """An option beats a variable, so that of a default is left out."""
    assert flags(ServerOrder({"m": MODEL}, env={"SERVEKIT_REPLICAS": "4"})) == {}
    assert flags(ServerOrder({"m": MODEL}, replicas=2, settings=("m.replicas=3",))) == {
        "replicas": 2,
        "set": ["m.replicas=3"],
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param({"env": {"SERVEKIT_PORT": "80"}}, "SERVEKIT_PORT: .* use --port", id="port"),
        pytest.param({"env": {"SERVEKIT_BIND": "::1:80"}}, "its Ray node", id="bind"),
        pytest.param({"env": {"SERVEKIT_QUEU": "80"}}, "did you mean 'SERVEKIT_QUEUE'", id="typo"),
        pytest.param({"settings": ["m.replica=2"]}, "did you mean 'replicas'", id="typo in --set"),
        pytest.param({"settings": ["n.replicas=2"]}, "no model is called 'n'", id="another model"),
        pytest.param({"replicas": 2000}, "--replicas", id="range"),
    ],
)
def test_settings_with_which_no_server_would_start_are_refused_here(ordered, options, complaint):
    with pytest.raises(StartupError, match=complaint):
        ordered(**options)


def test_workers_share_the_gpus_unless_the_settings_say_otherwise():
    models = {"a": MODEL, "b": MODEL}

    assert device_settings(models, ["a.devices=cpu", "b.replicas=2"]) == ["b.devices=auto"]


def test_threads_are_those_of_the_cpus_that_ray_has_set_aside():
    order = ServerOrder({"a": MODEL, "b": MODEL}, workers=4, cpus=8, env={"MODE": "fast"})

    assert environment(order)["OMP_NUM_THREADS"] == "2"
    assert environment(order)["MODE"] == "fast"
