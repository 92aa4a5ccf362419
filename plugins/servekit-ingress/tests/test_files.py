# SPDX-License-Identifier: Apache-2.0
"""What ``servekit ingress`` writes, and what it refuses."""

import json
import os
import subprocess

import pytest
from servekit_ingress.nodes import NodeAddress, addresses
from servekit_ingress.publishing import publish, replace_file

from servekit.cli import main
from servekit.client import Discovery
from servekit.errors import StartupError

from .conftest import PROGRAMS, WAIT_S, proxy_param

A, B = "http://127.0.0.1:8081", "http://127.0.0.1:8082"
CHECKS = {"haproxy": ("-c", "-f"), "envoy": ("--mode", "validate", "-l", "warn", "-c")}


def written(tmp_path, proxy, *arguments):
    """Return what the command writes, by the names of the files."""
    path = tmp_path / ("haproxy.cfg" if proxy == "haproxy" else "envoy.json")
    assert main(["ingress", proxy, *arguments, "-o", str(path)]) == 0
    return {each.name: each.read_text() for each in tmp_path.iterdir()}


@pytest.mark.parametrize("proxy", [proxy_param("haproxy"), proxy_param("envoy")])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="plain"),
        pytest.param(("--grpc", "9000", "--repeat"), id="with gRPC and repeats"),
        pytest.param(("--listen", "[::]:80", "--servers", "http://[::1]:8083"), id="with IPv6"),
    ],
)
def test_the_proxy_accepts_its_files(proxy, options, tmp_path):
    files = written(tmp_path, proxy, *options, "--servers", A, B)
    main_file = tmp_path / ("haproxy.cfg" if proxy == "haproxy" else "envoy.json")
    command = [PROGRAMS[proxy], *CHECKS[proxy], str(main_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert not [name for name in files if name.startswith(".")]


@pytest.mark.skipif(PROGRAMS["haproxy"] is None, reason="haproxy is not installed")
def test_haproxy_refuses_a_misspelled_file(tmp_path):
    text = written(tmp_path, "haproxy", "--servers", A)["haproxy.cfg"].replace(
        "leastconn", "leastcon"
    )
    (tmp_path / "haproxy.cfg").write_text(text)
    command = [PROGRAMS["haproxy"], "-c", "-f", str(tmp_path / "haproxy.cfg")]

    assert subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False).returncode == 1


def test_haproxy_asks_the_node_that_has_the_fewest_requests(tmp_path):
    text = written(tmp_path, "haproxy", "--servers", B, A)["haproxy.cfg"]

    assert "balance leastconn" in text
    assert "retry-on conn-failure\n" in text
    assert "server 127.0.0.1_8081 127.0.0.1:8081 check\n" in text
    assert text.index(":8081") < text.index(":8082")


def test_grpc_goes_to_its_own_port_and_health_to_that_of_http(tmp_path):
    text = written(tmp_path, "haproxy", "--servers", A, "--grpc", "9000")["haproxy.cfg"]
    files = written(tmp_path, "envoy", "--servers", A, "--grpc", "9000")
    (resource,) = json.loads(files["envoy-grpc.json"])["resources"]
    endpoint = resource["endpoints"][0]["lb_endpoints"][0]["endpoint"]

    assert "127.0.0.1:9000 proto h2 check port 8081 check-proto h1" in text
    assert endpoint["address"]["socket_address"]["port_value"] == 9000
    assert endpoint["health_check_config"] == {"port_value": 8081}


def test_the_names_of_nodes_become_addresses_for_envoy(tmp_path):
    files = written(tmp_path, "envoy", "--servers", "http://localhost:8081")
    (resource,) = json.loads(files["envoy-http.json"])["resources"]
    nodes = resource["endpoints"][0]["lb_endpoints"]
    found = {each["endpoint"]["address"]["socket_address"]["address"] for each in nodes}

    assert found <= {"127.0.0.1", "::1"}
    assert found


def test_servers_are_read_from_a_file(tmp_path):
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps([A, B]))
    text = written(tmp_path, "haproxy", "--servers-file", str(servers))["haproxy.cfg"]

    assert ":8081 check" in text
    assert ":8082 check" in text


def test_a_command_runs_after_the_write(tmp_path):
    copy = tmp_path / "copy"
    written(tmp_path, "haproxy", "--servers", A, "--on-change", f"cp {tmp_path}/haproxy.cfg {copy}")

    assert copy.read_text() == (tmp_path / "haproxy.cfg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ("--servers", "https://a:1"), "'https://a:1' is not http://HOST:PORT", id="https"
        ),
        pytest.param(("--servers", f"{A}/x"), "is not http://HOST:PORT", id="a path"),
        pytest.param(("--servers", "http://a:b"), "is not http://HOST:PORT", id="no port"),
        pytest.param(
            ("--servers", "http://a disabled:80"), "is not http://HOST:PORT", id="a space"
        ),
        pytest.param(("--servers", 'http://a"b:80'), "is not http://HOST:PORT", id="a quote"),
        pytest.param(("--servers", "http://a:0"), "is not http://HOST:PORT", id="port 0"),
        pytest.param(("--servers", "http://me:pw@a:80"), "is not http://HOST:PORT", id="a user"),
        pytest.param(("--servers", A, "--grpc", "8000"), "is the port of --listen", id="one port"),
        pytest.param(("--servers-file", "/none.json"), "no servers found", id="no file"),
    ],
)
def test_what_is_refused(arguments, message, tmp_path, capsys):
    status = main(["ingress", "haproxy", "-o", str(tmp_path / "haproxy.cfg"), *arguments])

    assert (status, message in capsys.readouterr().err) == (3, True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(("--listen", "127.0.0.1:99999"), id="a large port"),
        pytest.param(("--listen", "a ssl:80"), id="a space"),
        pytest.param(("--grpc", "-5"), id="gRPC below 1"),
        pytest.param(("--timeout", "0"), id="no time"),
    ],
)
def test_options_that_are_refused(option, tmp_path, capsys):
    path = tmp_path / "haproxy.cfg"
    with pytest.raises(SystemExit) as ended:
        main(["ingress", "haproxy", "--servers", A, "-o", str(path), "=".join(option)])

    assert (ended.value.code, f"argument {option[0]}: " in capsys.readouterr().err) == (2, True)
    assert not path.exists()


def test_a_directory_in_place_of_the_file_stays_as_it_is(tmp_path, capsys):
    path = tmp_path / "haproxy.cfg"
    path.mkdir()

    assert main(["ingress", "haproxy", "--servers", A, "-o", str(path)]) == 3
    assert "Is a directory" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    path = tmp_path / "none" / "haproxy.cfg"

    assert main(["ingress", "haproxy", "--servers", A, "-o", str(path)]) == 3
    assert f"{path}: No such file or directory" in capsys.readouterr().err


def test_a_problem_while_it_follows_is_printed_once_and_the_next_look_is_better(capsys):
    looks, written = [[A], OSError("away"), OSError("away"), [], [A, B]], []

    class Looks(Discovery):
        every_s = 0.0

        def urls(self):
            if not looks:
                raise KeyboardInterrupt
            found = looks.pop(0)
            if isinstance(found, OSError):
                raise found
            return found

    with pytest.raises(KeyboardInterrupt):
        publish(Looks(), written.append, follow=True)

    assert written == [[A], [A, B]]
    assert capsys.readouterr().err.splitlines() == [
        "servekit: no servers found: away",
        "servekit: no servers found",
    ]


def test_a_file_that_cannot_be_written_at_first_ends_the_command(tmp_path, capsys):
    path = tmp_path / "none" / "haproxy.cfg"

    assert main(["ingress", "haproxy", "--servers", A, "-o", str(path), "--follow"]) == 3
    assert str(path) in capsys.readouterr().err


def test_each_node_is_named_once():
    assert addresses([B, A, A + "/"]) == [
        NodeAddress("127.0.0.1", 8081),
        NodeAddress("127.0.0.1", 8082),
    ]
    with pytest.raises(StartupError):
        addresses(["127.0.0.1:8080"])


def test_a_file_that_is_replaced_keeps_its_mode_and_owner(tmp_path):
    path = tmp_path / "servers.json"
    path.write_text("[]")
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()
    replace_file(path, "new")

    after = path.stat()
    assert path.read_text() == "new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode, before.st_uid, before.st_gid,
    )  # fmt: skip
