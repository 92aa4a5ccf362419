# SPDX-License-Identifier: Apache-2.0
"""What commands and clients say while the controller answers, or does not. Without a cluster."""

import json

import pytest
from servekit_ray import command, discovery
from servekit_ray.deployment import RayDeployment
from servekit_ray.discovery import RayDiscovery
from servekit_ray.state import DeploymentStatus, ServerOrder, ServerStatus

from servekit.cli import main
from servekit.errors import StartupError

SERVERS = [ServerStatus("s:1", "ready", "http://10.0.0.1:80")]
STATUS = DeploymentStatus("shop", 2, 2, 2, ServerOrder({}, env={"A": "***"}), SERVERS)


class FakeDeployment:
    """A deployment of two servers, where waiting for more ends with an error."""

    def __init__(self, error=None):
        self.error = error

    def status(self):
        return STATUS

    def scale(self, *_bounds):
        """Take note of it."""

    def wait(self, *_arguments):
        raise self.error

    def swap(self, *_arguments, **_options):
        raise self.error


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a command of ``servekit ray``."""

    def run(*arguments, error=None):
        monkeypatch.setattr(command, "connect", lambda *_arguments: FakeDeployment(error))
        return main(["ray", *arguments])

    return run


def test_a_scale_that_takes_too_long_says_what_the_deployment_works_towards(run, capsys):
    status = run("scale", "4:8", error=StartupError("after 3 s: 2 of 4 servers serve"))

    assert status == 3
    assert capsys.readouterr().err == (
        "servekit: after 3 s: 2 of 4 servers serve\n"
        "servekit: the deployment still works towards 4:8 servers; "
        "servekit ray scale 2 takes that back\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["scale", "4"], "still works towards 4 servers; servekit ray scale 2 takes that back"),
        (["swap", "m", "m=s3://b/m.mar"], "the swap continues; servekit ray status shows how"),
    ],
    ids=["scale", "swap"],
)
def test_ctrl_c_says_what_continues_in_the_cluster(run, capsys, arguments, text):
    assert run(*arguments, error=KeyboardInterrupt()) == 130
    assert text in capsys.readouterr().err


def test_status_is_one_if_servers_are_missing(run, capsys):
    assert run("status", "--json") == 1
    assert json.loads(capsys.readouterr().out)["order"]["env"] == {"A": "***"}


@pytest.mark.parametrize("arguments", [["addresses", "-o", "x"], ["ingress", "envoy", "-o", "x"]])
def test_commands_that_write_files_have_no_json(run, capsys, arguments):
    with pytest.raises(SystemExit):
        run(*arguments, "--json")

    assert "unrecognized arguments: --json" in capsys.readouterr().err


class SilentController:
    """A controller whose answers never come."""

    def __getattr__(self, _name):
        return self

    def options(self, **_options):
        return self

    def remote(self, *_arguments):
        return self


def test_a_controller_that_does_not_answer_ends_the_wait(monkeypatch):
    ray = pytest.importorskip("ray")
    waits = []

    def get(_result, timeout):
        waits.append(timeout)
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "get", get)
    deployment = RayDeployment("shop", SilentController())
    monkeypatch.setattr(discovery, "connect", lambda *_arguments: deployment)
    for ask in (deployment.status, deployment.urls, lambda: deployment.scale(2)):
        with pytest.raises(StartupError, match="shop: its controller does not answer within 60 s"):
            ask()
    with pytest.raises(OSError, match="does not answer within 10 s"):
        RayDiscovery().urls()

    assert waits == [60, 60, 60, 10]
