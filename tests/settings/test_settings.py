# SPDX-License-Identifier: Apache-2.0
"""Where settings come from, which source wins, and what is refused."""

from pathlib import Path

import pytest

from servekit.settings import Settings, SettingsError, load_settings, options
from servekit.settings.values import size, size_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024", 1024), ("10MiB", 10 * 2**20), ("10MB", 10**7), ("1.5k", 1536), ("2 GiB", 2**31),
        ("64K", 65536), ("7B", 7), ("1TiB", 2**40),
    ],
)  # fmt: skip
def test_size(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "ten", "10XB", "MiB", "-", "1e", "inf", "nan", "1_0", "٣"])
def test_no_size(text):
    with pytest.raises(ValueError, match="is not a size such as 10MiB"):
        size(text)


@pytest.mark.parametrize("count", [1, 1000, 1024, 3 * 2**20, 2**30, 2**40, 2**40 + 1])
def test_size_reads_back(count):
    assert size(size_text(count)) == count


def test_flag_wins_over_variable_over_file_over_default(tmp_path):
    file = tmp_path / "servekit.toml"
    file.write_text("port = 1\nqueue = 2\ngrace = 3\n")
    environment = {"SERVEKIT_PORT": "10", "SERVEKIT_QUEUE": "20", "OTHER": "x"}

    found = load_settings({"port": "100"}, file, environment)

    assert (found.port, found.queue, found.grace, found.host) == (100, 20, 3.0, "127.0.0.1")


# ---------------------------------------------------------------- paths

PATHS = 'cache_dir = "c"\nrun_dir = "../r"\nmodels = ["a.mar", "b=c/d", "/abs", "x=y.mar"]\n'


@pytest.mark.parametrize("name", ["plain", "with = sign"])
def test_paths_of_a_file_are_relative_to_it(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / name
    directory.mkdir()
    (directory / "x=y.mar").touch()
    (directory / "servekit.toml").write_text(PATHS)
    found = load_settings({}, Path(name, "servekit.toml"), {})

    assert (found.cache_dir, found.run_dir) == (f"{directory}/c", f"{directory}/../r")
    assert found.models[:2] == (f"{directory}/a.mar", f"b={directory}/c/d")
    assert found.models[2:] == ("/abs", f"{directory}/x=y.mar")


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        pytest.param({"cache_dir": "c", "models": ["a.mar", "b=c"]}, {}, id="flags"),
        pytest.param(
            {}, {"SERVEKIT_CACHE_DIR": "c", "SERVEKIT_MODELS": "a.mar b=c"}, id="variables"
        ),
    ],
)
def test_other_paths_are_relative_to_the_working_directory(
    tmp_path, monkeypatch, flags, environment
):
    monkeypatch.chdir(tmp_path)
    found = load_settings(flags, None, environment)

    assert found.cache_dir == f"{tmp_path}/c"
    assert found.models == (f"{tmp_path}/a.mar", f"b={tmp_path}/c")


def test_working_directory_that_is_gone_matters_to_relative_paths_only(tmp_path, monkeypatch):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert load_settings({"cache_dir": "/c"}, None, {}).cache_dir == "/c"
    with pytest.raises(SettingsError, match="--cache-dir: No such file or directory"):
        load_settings({"cache_dir": "c"}, None, {})
    with pytest.raises(SettingsError, match="--set: No such file or directory"):
        load_settings({"set": ["a.path=a.mar"]}, None, {})


def test_no_path_stays_none():
    assert (load_settings({"cache_dir": ""}, None, {}).cache_dir, Settings().run_dir) == ("", "")


def test_variable_may_quote_paths_that_hold_spaces():
    found = load_settings({}, None, {"SERVEKIT_MODELS": "'/my models/a.mar' two=/b\\ c.mar"})

    assert found.models == ("/my models/a.mar", "two=/b c.mar")


def test_rules_are_separated_by_commas():
    assert load_settings({"policy": "signed, no-pickle"}, environment={}).policy == (
        "signed,no-pickle"
    )


# ---------------------------------------------------------------- refusals

REFUSED = {
    "unknown key": ("prot = 1", {}, {}, "unknown key 'prot', did you mean 'port'"),
    "unknown variable": (
        "", {"SERVEKIT_PROT": "1"}, {}, "'SERVEKIT_PROT', did you mean 'SERVEKIT_PORT'?"
    ),
    "port too high": ("port = 70000", {}, {}, "port: 70000 is above 65535"),
    "bool is no number": ("grace = true", {}, {}, "grace: true is not a number"),
    "bool is no whole number": ("port = true", {}, {}, "port: true is not a whole number"),
    "number is no text": ("host = 5", {}, {}, "host: 5 is not a string"),
    "list is no size": ("max_body = [1]", {}, {}, "max_body: this list is not a size"),
    "table is no text": ("[host]", {}, {}, "host: a table is not a string"),
    "text is no switch": ("", {"SERVEKIT_STRICT": "yes"}, {}, "SERVEKIT_STRICT"),
    "number is no switch": ("strict = 1", {}, {}, "strict: 1 is not true or false"),
    "text is no number": ("", {}, {"port": "x"}, "--port: 'x' is not a whole number"),
    "a fraction is not whole": ("port = 80.5", {}, {}, "port: '80.5' is not a whole number"),
    "unknown choice": ("", {}, {"log_format": "xml"}, "--log-format: 'xml' is not one of"),
    "not a size": ("", {"SERVEKIT_MAX_BODY": "big"}, {}, "SERVEKIT_MAX_BODY"),
    "NaN": ("grace = nan", {}, {}, "grace: 'nan' is not a number"),
    "infinite": ("", {}, {"grace": "inf"}, "--grace: 'inf' is not a number"),
    "huge duration": ("", {}, {"grace": "1e30"}, "--grace: 1e30 is above 86400"),
    "huge size": ("", {}, {"max_body": "1e400MiB"}, "--max-body: 1e400MiB is above 512MiB"),
    "size below": ("", {}, {"arena": "1KiB"}, "--arena: 1KiB is below 64KiB"),
    "endless number": ("", {}, {"queue": "9" * 5000}, "9... is above 1000000"),
    "models is a number": ("models = 1", {}, {}, "models: 1 is not a list of strings"),
    "models is one text": ("models = 'a b'", {}, {}, "models: 'a b' is not a list of strings"),
    "empty name": ("", {}, {"models": ["=a.mar"]}, "models: '=a.mar': the name is empty"),
    "empty path": ("", {}, {"models": ["a="]}, "models: 'a=': the path is empty"),
    "no rule": ("policy = 'No Pickle'", {}, {}, "policy: 'No Pickle' is not the name of a rule"),
    "empty rule": ("", {}, {"policy": "signed,"}, "--policy: '' is not the name of a rule"),
    "open quote": ("", {"SERVEKIT_MODELS": "'a"}, {}, "no closing quotation mark"),
    "daemon without a command": (
        "[[daemons]]\nname = 'a'", {}, {}, "daemons: Object missing required field `command`"
    ),
    "daemon with an empty command": (
        "[[daemons]]\nname = 'a'\ncommand = []", {}, {}, "daemons: a: the command is empty"
    ),
    "daemon whose name is a path": (
        "[[daemons]]\nname = 'a/b'\ncommand = ['x']", {}, {}, "daemons: 'a/b' is not a valid name"
    ),
    "unknown key of a daemon": (
        "[[daemons]]\nname = 'a'\ncommand = ['x']\nuser = 'b'", {}, {}, "unknown field `user`"
    ),
    "one daemon that is no array": ("[daemons]\nname = 'a'", {}, {}, "daemons: Expected `array`"),
    "daemons in a variable": ("", {"SERVEKIT_DAEMONS": "redis"}, {}, "'SERVEKIT_DAEMONS'"),
    "not TOML": ("=", {}, {}, "servekit.toml"),
    "not UTF-8": ("\udcff", {}, {}, "servekit.toml: byte 0 is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "env", "flags", "message"), REFUSED.values(), ids=REFUSED)
def test_refusal_names_the_source_and_the_value(tmp_path, text, env, flags, message):
    file = tmp_path / "servekit.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(SettingsError) as refusal:
        load_settings(flags, file, env)

    assert message in str(refusal.value)
    assert not any(
        word in str(refusal.value) for word in ("\n", "True", "invalid literal", "Errno")
    )


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"/no\.toml: No such file or directory$"):
        load_settings({}, tmp_path / "no.toml", {})


@pytest.mark.parametrize("option", [o for o in options() if o.is_number], ids=lambda o: o.name)
def test_every_number_has_an_end(option):
    assert option.parse.low <= option.default <= option.parse.high
    with pytest.raises(ValueError, match=" is above "):
        option.parse("9" * 30)


@pytest.mark.parametrize(
    "service", ["SERVEKIT", "SERVEKIT_DIGITS", "SERVEKIT_V2_PREDICTOR", "SERVEKIT_PLUGIN_A"]
)
def test_what_kubernetes_sets_for_a_service_is_no_setting(service):
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "80",
        f"{service}_SERVICE_PORT_HTTP": "80",
        f"{service}_PORT": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP": "tcp://10.0.0.1:80",
        f"{service}_PORT_80_TCP_ADDR": "10.0.0.1",
    }

    assert load_settings({}, None, links) == load_settings({}, None, {})


@pytest.mark.parametrize("name", ["SERVEKIT_A_SERVICE_HOSTS", "SERVEKIT_A_PORT", "SERVEKIT_TCP"])
def test_a_variable_like_that_of_a_service_is_unknown(name):
    with pytest.raises(SettingsError, match="unknown variable"):
        load_settings({}, None, {name: "http://10.0.0.1"})


def test_every_default_passes_its_own_parser():
    for option in options():
        if not option.is_list and option.default != "":
            assert option.parse(str(option.default)) == option.default


def test_defaults_listen_on_loopback_only():
    assert Settings().host == "127.0.0.1"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_a_server_for_development_listens_to_this_machine(host):
    assert load_settings({"dev": True, "host": host}, environment={}).dev


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.168.1.2", "example.org", "localhost.x"])
def test_a_server_for_development_listens_to_no_other_machine(host):
    with pytest.raises(SettingsError, match=r"dev: responses contain traceb.* not a loopback"):
        load_settings({"dev": True, "host": host}, environment={})
