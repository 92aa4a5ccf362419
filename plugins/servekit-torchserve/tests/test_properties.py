# SPDX-License-Identifier: Apache-2.0
"""``config.properties``: how it is read, and what becomes of each key."""

import pytest
from servekit_torchserve.command.keys import ADDRESSES, ELSEWHERE, MISSING, NOT_NEEDED, SETTINGS
from servekit_torchserve.command.keys import settings_of as settings_of_properties
from servekit_torchserve.command.properties import parse, read_properties

from servekit.errors import StartupError


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        pytest.param("a=1\nb = 2", {"a": "1", "b": "2"}, id="lines"),
        pytest.param("# a=1\n! b=2\n\nc=3", {"c": "3"}, id="comments"),
        pytest.param("a: 1\nb 2", {"a": "1", "b": "2"}, id="other separators"),
        pytest.param("a=http://h:80", {"a": "http://h:80"}, id="a separator in the value"),
        pytest.param("a={\\\n  1,\\\n  2}", {"a": "{1,2}"}, id="a line that goes on"),
        pytest.param("a=1\\t2\\\\", {"a": "1\t2\\"}, id="escapes"),
        pytest.param("a", {"a": ""}, id="no value"),
    ],
)
def test_properties_are_read_as_java_reads_them(text, properties):
    assert parse(text) == properties


def test_variables_are_filled_in_and_win_only_if_that_is_enabled(tmp_path):
    path, environment = tmp_path / "config.properties", {"STORE": "/srv", "TS_JOB_QUEUE_SIZE": "7"}
    path.write_text("model_store=$$STORE$$/models\njob_queue_size=5\n")

    assert read_properties(path, environment) == {
        "model_store": "/srv/models",
        "job_queue_size": "5",
    }
    path.write_text("enable_envvars_config=true\njob_queue_size=5\n")
    assert read_properties(path, environment)["job_queue_size"] == "7"
    assert read_properties(None, environment) == {}


def test_a_file_that_is_missing_ends_the_start(tmp_path):
    with pytest.raises(StartupError, match=r"none\.properties"):
        read_properties(tmp_path / "none.properties", {})


@pytest.mark.parametrize(
    ("key", "value", "variable", "expected"),
    [
        ("inference_address", "http://0.0.0.0:9080", "SERVEKIT_BIND", "0.0.0.0:9080"),
        ("inference_address", "http://[::1]:9080", "SERVEKIT_BIND", "[::1]:9080"),
        ("inference_address", "http://localhost", "SERVEKIT_BIND", "localhost:80"),
        ("inference_address", "unix:/tmp/ts.sock", "SERVEKIT_BIND", "unix:/tmp/ts.sock"),
        ("management_address", "http://h:1", "SERVEKIT_PLUGIN_TORCHSERVE_MANAGEMENT", "h:1"),
        ("metrics_address", "http://h:2", "SERVEKIT_PLUGIN_TORCHSERVE_METRICS", "h:2"),
        ("job_queue_size", "50", "SERVEKIT_QUEUE", "50"),
        ("max_request_size", "100", "SERVEKIT_MAX_BODY", "100"),
        ("cors_allowed_origin", "http://a,http://b", "SERVEKIT_CORS_ORIGINS", "http://a http://b"),
        ("install_py_dep_per_model", "true", "SERVEKIT_INSTALL_REQUIREMENTS", "true"),
    ],
)
def test_a_key_becomes_a_setting(key, value, variable, expected):
    settings, rows = settings_of_properties({key: value})

    assert settings[variable] == expected
    assert [row.now for row in rows] == [variable]


def test_the_addresses_of_torchserve_are_the_defaults():
    settings, rows = settings_of_properties({})

    assert [settings.pop(name) for name in list(settings) if "GRPC" not in name] == [
        "127.0.0.1:8080",
        "127.0.0.1:8081",
        "127.0.0.1:8082",
    ]
    assert list(settings.values()) in ([], ["127.0.0.1:7070", "127.0.0.1:7071"])
    assert rows == []


def test_certificates_count_if_an_address_has_tls():
    files = {"certificate_file": "c.pem", "private_key_file": "k.pem"}
    secured, _ = settings_of_properties(files | {"inference_address": "https://127.0.0.1:8443"})
    open_, _ = settings_of_properties(files)

    assert (secured["SERVEKIT_TLS_CERTIFICATE"], secured["SERVEKIT_TLS_KEY"]) == ("c.pem", "k.pem")
    assert "SERVEKIT_TLS_CERTIFICATE" not in open_


@pytest.mark.parametrize(
    ("key", "note"),
    [
        ("number_of_netty_threads", "not needed: front_ends sets how many"),
        ("blacklist_env_vars", "workers get few variables"),
        ("no_such_key", "unknown"),
    ],
)
def test_a_key_without_a_counterpart_is_reported(key, note):
    _, (row,) = settings_of_properties({key: "1"})

    assert (row.before, row.now) == (f"{key}=1", "")
    assert row.note.startswith(note)


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "ftp://h:1", "http://h:many"])
def test_what_is_not_an_address_ends_the_start(address):
    with pytest.raises(StartupError, match=r"management_address: .* is not an address"):
        settings_of_properties({"management_address": address})


def test_no_key_has_two_fates():
    groups = [set(each) for each in (ADDRESSES, ELSEWHERE, MISSING, NOT_NEEDED, SETTINGS)]

    assert sum(map(len, groups)) == len(set.union(*groups))
