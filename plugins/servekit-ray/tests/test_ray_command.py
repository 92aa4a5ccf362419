# SPDX-License-Identifier: Apache-2.0
"""``servekit ray`` as people type it, on a cluster."""

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip("ray")
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def command(cluster):
    """Return a function that runs ``servekit ray`` for the cluster."""

    def run(name, *arguments, status=0):
        whole = [sys.executable, "-m", "servekit", "ray", name, *arguments]
        done = subprocess.run(
            [*whole, "--address", cluster.address],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done

    return run


def test_a_deployment_from_its_beginning_to_its_end(command, greeter):
    first = command("deploy", greeter(), "--nodes", "1", "--cpus", "1", "--json")
    [server] = json.loads(first.stdout)["servers"]
    again = command("deploy", greeter("1.1"), status=3)
    shown = command("status")
    command("swap", "greet", greeter("2.0"), "--watch", "0")
    scaled = json.loads(command("scale", "2", "--json").stdout)
    unknown = command("swap", "digits", greeter("3.0"), status=3)
    command("down")
    gone = command("status", status=3)

    assert server["state"] == "ready"
    assert "servekit: deployment servekit: exists; swap or scale it" in again.stderr
    assert shown.stdout.startswith("servekit: 1 of 1 servers serve")
    assert server["url"] in shown.stdout
    assert len(scaled["servers"]) == 2
    assert "digits: is not deployed; models: greet" in unknown.stderr
    assert "servekit: the cluster has no deployment called 'servekit'" in gone.stderr


def test_ctrl_c_leaves_no_half_of_a_deployment(cluster, command, greeter):
    whole = [sys.executable, "-m", "servekit", "ray", "deploy", greeter(), "--cpus", "64"]
    process = subprocess.Popen([*whole, "--address", cluster.address], stderr=subprocess.PIPE)
    while command_fails(command):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=400)

    assert process.returncode == 130
    assert command_fails(command)


def command_fails(command):
    """Whether the cluster has no deployment."""
    try:
        command("status", status=1)  # some servers are missing
    except AssertionError:
        return True
    return False
