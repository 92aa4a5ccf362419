# SPDX-License-Identifier: Apache-2.0
"""What needs no cluster: the command line, models, swaps in order."""

import argparse
import asyncio
import json
import socket
import subprocess
import sys

import msgspec
import pytest
from servekit_ray.arguments import bounds, variable
from servekit_ray.command import configure
from servekit_ray.connection import check_reachable
from servekit_ray.models import shipped_models
from servekit_ray.output import table
from servekit_ray.rolling import Rolling
from servekit_ray.server import problem_in
from servekit_ray.state import (
    DeploymentStatus,
    DesiredState,
    RollOperation,
    ServerOrder,
    ServerStatus,
    ShippedModel,
    plain,
)
from servekit_ray.watched import WatchedServer

from servekit.cli import main
from servekit.errors import StartupError

OLD, NEW = ShippedModel("a.mar", "1" * 64), ShippedModel("b.mar", "2" * 64)


def test_the_plugin_imports_no_ray():
    code = "import sys, servekit_ray.hooks, servekit_ray.command; print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@pytest.mark.parametrize(("text", "found"), [("2", (2, 2)), ("1:4", (1, 4))])
def test_bounds(text, found):
    assert bounds(text) == found


@pytest.mark.parametrize("text", ["", "0", "4:2", "a", "-1", "1:"])
def test_bounds_that_are_none(text):
    if text == "1:":
        assert bounds(text) == (1, 1)
        return
    with pytest.raises(argparse.ArgumentTypeError):
        bounds(text)


def test_arguments_that_are_refused():
    for read, text in [(bounds, "0"), (variable, "NO_SUCH_NAME"), (variable, "=1")]:
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
    assert variable("A=b=c") == ("A", "b=c")


def test_a_variable_without_a_value_has_that_of_this_process(monkeypatch):
    monkeypatch.setenv("SERVEKIT_PREDICT_TOKEN", "s3cret")

    assert variable("SERVEKIT_PREDICT_TOKEN") == ("SERVEKIT_PREDICT_TOKEN", "s3cret")


@pytest.mark.parametrize(
    "arguments",
    [
        ["deploy", "a.mar", "--cpus", "-1"],
        ["deploy", "a.mar", "--cpus", "nan"],
        ["deploy", "a.mar", "--gpus", "-0.5"],
        ["deploy", "a.mar", "--timeout", "-1"],
        ["deploy", "a.mar", "--port", "65536"],
        ["deploy", "a.mar", "--port", "-1"],
        ["scale", "2", "--timeout", "-1"],
        ["swap", "a", "a.mar", "--watch", "-1"],
    ],
    ids=" ".join,
)
def test_numbers_out_of_range_are_refused_before_anything_begins(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["ray", *arguments])

    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {arguments[-2]}: " in told
    assert arguments[-1] in told


def test_models_have_the_names_of_their_archives_or_their_own(greeter, tmp_path):
    path = greeter()
    found = shipped_models([path, f"two={path}", "three=s3://bucket/c.mar"])

    assert [*found] == ["greet", "two", "three"]
    assert found["greet"] == ShippedModel("greet-1.0.mar", found["greet"].digest)
    assert found["three"] == ShippedModel(url="s3://bucket/c.mar")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("s3://bucket/c.mar", "write NAME=s3://bucket/c.mar", id="URL without a name"),
        pytest.param("a={directory}", "servekit build", id="directory"),
        pytest.param("{directory}", "servekit build", id="directory without a name"),
        pytest.param("{directory}/none.mar", "no such file", id="no such file"),
        pytest.param("{directory}/text.mar", "only archives of servekit", id="no archive"),
    ],
)
def test_models_that_are_refused(text, complaint, tmp_path):
    (tmp_path / "text.mar").write_text("no archive")

    with pytest.raises(StartupError, match=complaint):
        shipped_models([text.format(directory=tmp_path)])


@pytest.mark.parametrize(
    ("output", "errors", "problem"),
    [
        ('{"error": "example 1: differs"}', "", "example 1: differs"),
        ("", "one\nservekit: two\n", "servekit: two"),
        ('{"error": "see the log above"}', "", "see the log of the server"),
        ("", "", "the command failed"),
    ],
)
def test_why_a_command_failed(output, errors, problem):
    assert problem_in(output, errors) == problem


def test_an_address_without_a_cluster_is_an_error_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    for given in (address, "auto"):
        with pytest.raises(StartupError, match="no Ray cluster answers"):
            check_reachable(given)


@pytest.mark.parametrize(
    "address", ["foo", "ray://10.0.0.1:10001", "http://10.0.0.1:8265", "local", ":6379"]
)
def test_an_address_that_is_not_one_is_refused_at_once(monkeypatch, address):
    """Ray would look for minutes, or start a cluster that ends with the command."""
    with pytest.raises(StartupError, match=r"--address .*: is not HOST:PORT"):
        check_reachable(address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(StartupError, match=r"RAY_ADDRESS .*: is not HOST:PORT"):
        check_reachable("auto")


def test_the_desired_state_survives_as_json():
    state = DesiredState(ServerOrder({"a": OLD}, env={"A": "b"}), 1, 4, 2)
    state.scaled(3, 3)

    assert state.target == 3
    assert msgspec.json.decode(msgspec.json.encode(state), type=DesiredState) == state


def test_the_table_of_a_deployment():
    servers = [
        ServerStatus("s:1", "ready", "http://10.0.0.1:80", "a" * 40),
        ServerStatus("s:2", "waiting"),
    ]
    swap = RollOperation("a", "failed", error="example 1 differs")
    status = DeploymentStatus("shop", 1, 4, 2, ServerOrder({"a": OLD}), servers, swap)

    assert table(status) == [
        "shop: 1 of 2 servers serve, from 1 to 4",
        "  model     a: a.mar",
        "  swap      of a: failed: example 1 differs",
        "  ready     http://10.0.0.1:80            Ray node aaaaaaaaaaaa",
        "  waiting   -                             Ray node -",
    ]


class FakeFleet:
    """Servers that swap, unless their name says that they refuse."""

    def __init__(self, *names):
        self.staying = [WatchedServer(name, None, "ready", models={"m": OLD}) for name in names]
        self.log = []

    async def swap(self, server, name, model, watch_s):
        self.log.append(f"swap {server.name}")
        if server.name.startswith("bad"):
            raise StartupError("example 1 differs")
        server.models[name] = model

    async def rollback(self, server, name, model):
        self.log.append(f"rollback {server.name}")
        server.models[name] = model


def test_a_roll_goes_on_until_all_servers_have_the_new_version():
    pytest.importorskip("ray")
    fleet = FakeFleet("one", "two")
    rolling = Rolling(fleet, RollOperation("m"), OLD, NEW, 1.0)

    assert asyncio.run(rolling.run())
    assert fleet.log == ["swap one", "swap two"]


def test_a_server_that_refuses_ends_the_roll_and_the_others_return():
    pytest.importorskip("ray")
    fleet, operation = FakeFleet("one", "two", "bad", "four"), RollOperation("m")

    assert not asyncio.run(Rolling(fleet, operation, OLD, NEW, 1.0).run())
    assert fleet.log == ["swap one", "swap two", "swap bad", "rollback two", "rollback one"]
    assert all(server.models == {"m": OLD} for server in fleet.staying)
    assert "example 1 differs" in operation.error


def test_a_url_is_swapped_even_if_the_servers_have_it_already():
    """What it leads to may have changed: the controller gives each swap a revision."""
    pytest.importorskip("ray")
    fleet = FakeFleet("one", "two")
    deployed = ShippedModel(url="s3://bucket/m.mar")
    for server in fleet.staying:
        server.models["m"] = deployed
    again = ShippedModel(url="s3://bucket/m.mar", revision="1")

    assert asyncio.run(Rolling(fleet, RollOperation("m"), deployed, again, 1.0).run())
    assert fleet.log == ["swap one", "swap two"]


def test_what_may_be_a_secret_is_not_shown():
    model = ShippedModel(url="s3://key:s3cret@bucket/m.mar?sig=s3cret")
    settings = ("m.env.TOKEN=s3cret", "m.options={ key = 's3cret' }", "m.replicas=2")
    order = ServerOrder({"m": model}, settings=settings, env={"TOKEN": "s3cret"})
    server = WatchedServer("one", None, "ready", models={"m": model})
    text = json.dumps([plain(order.shown), plain(server.status)])

    assert "s3cret" not in text
    assert order.shown.env == {"TOKEN": "***"}
    assert order.shown.settings[-1] == "m.replicas=2"


def test_flags_that_repeat_add_up():
    parser = argparse.ArgumentParser()
    configure(parser)
    flags = ["--env", "A=1", "--set", "a.x=1", "--set", "a.y=2", "--env", "B=2"]
    parsed = parser.parse_args(["deploy", *flags, "a.mar"])

    assert parsed.env == [("A", "1"), ("B", "2")]
    assert parsed.settings == ["a.x=1", "a.y=2"]
    assert parsed.models == ["a.mar"]


def test_a_misspelled_command_is_answered_with_the_one_that_was_meant(capsys):
    with pytest.raises(SystemExit):
        main(["ray", "scal", "2"])

    expected = "servekit ray: unknown command 'scal', did you mean scale?\n"
    assert capsys.readouterr().err == expected


def test_a_misspelled_flag_is_answered_with_the_help_of_its_command(capsys):
    with pytest.raises(SystemExit):
        main(["ray", "status", "--foo"])

    expected = (
        "servekit ray status: unrecognized arguments: --foo (see servekit ray status --help)\n"
    )
    assert capsys.readouterr().err == expected
