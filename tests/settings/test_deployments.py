# SPDX-License-Identifier: Apache-2.0
"""Settings of single models: tables of the file, ``--set``, and what is refused."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import StartupError
from servekit.settings import Settings, SettingsError, load_settings
from servekit.settings.models import ModelSource, deployments_of, model_sources, unknown_model

TABLE = """
[models.digits]
path = "digits.mar"
sha256 = "{digest}"
replicas = 2
devices = [0, "GPU-8932f937"]
env = {{ MODE = "fast" }}
pass_env = ["HF_*"]
options = {{ threshold = 0.4, sizes = [1, 2] }}
batching = {{ max_batch_size = 16 }}
stages.decode.replicas = 4
"""
DIGEST = "Ab" * 32


def from_file(tmp_path, text, **flags):
    file = tmp_path / "servekit.toml"
    file.write_text(text)
    return load_settings(flags, file, {})


def assigned(*texts):
    return load_settings({"set": list(texts)}, None, {}).deployments


def test_a_table_holds_everything_that_can_be_set(tmp_path):
    (found,) = from_file(tmp_path, TABLE.format(digest=DIGEST)).deployments

    assert (found.name, found.source, found.path) == (
        "digits", "servekit.toml", f"{tmp_path}/digits.mar",
    )  # fmt: skip
    assert (found.replicas, found.devices, found.sha256) == (
        2, [0, "GPU-8932f937"], DIGEST.lower(),
    )  # fmt: skip
    assert (found.env, found.pass_env) == ({"MODE": "fast"}, ["HF_*"])
    assert found.options == {"threshold": 0.4, "sizes": [1, 2]}
    assert (found.batching.max_batch_size, found.batching.max_delay_ms) == (16, None)
    assert found.stages["decode"].replicas == 4


def test_assignments_of_one_model_are_one_table_and_the_last_wins():
    one, two = assigned(
        "a.replicas=2", "b.devices=cpu", "a.batching.max_delay_ms=5", "a.replicas=3"
    )

    assert (one.name, one.source, one.replicas, one.batching.max_delay_ms) == ("a", "--set", 3, 5)
    assert (two.name, two.devices) == ("b", "cpu")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        pytest.param("m.env.X=1", "env", {"X": "1"}, id="variables are strings"),
        pytest.param("m.env.X=1.50", "env", {"X": "1.50"}, id="as they were typed"),
        pytest.param("m.env.X='1'", "env", {"X": "1"}, id="quotes are not part of a variable"),
        pytest.param("m.env.X=a=b", "env", {"X": "a=b"}, id="an equals sign in the value"),
        pytest.param("m.env.X=", "env", {"X": ""}, id="an empty variable"),
        pytest.param("m.options.x=true", "options", {"x": True}, id="a switch"),
        pytest.param("m.options.x=fast", "options", {"x": "fast"}, id="a string without quotes"),
        pytest.param("m.options.a.b=[1, 2]", "options", {"a": {"b": [1, 2]}}, id="a nested option"),
        pytest.param("m.options.env.b=1", "options", {"env": {"b": 1}}, id="an option called env"),
        pytest.param('m.options."a.b"=1', "options", {"a.b": 1}, id="a quoted key"),
        pytest.param("m.devices=[0,1]", "devices", [0, 1], id="a list"),
        pytest.param("m.env={A='1'}", "env", {"A": "1"}, id="a table"),
    ],
)
def test_value_of_an_assignment(text, key, value):
    (found,) = assigned(text)

    assert getattr(found, key) == value


def test_a_name_with_a_dot_is_quoted():
    (found,) = assigned('"resnet-1.5".replicas=2')

    assert (found.name, found.replicas) == ("resnet-1.5", 2)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_string_can_be_set_in_quotes(text):
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    (found,) = assigned(f"m.options.x={quoted}")

    assert found.options == {"x": text}


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_string_is_a_value_or_a_variable_and_nothing_besides(text):
    (variable,) = assigned(f"m.env.X={text}")
    try:
        (option,) = assigned(f"m.options.x={text}")
    except SettingsError as error:  # a date, or infinity
        assert "cannot be expressed in JSON" in str(error)  # noqa: PT017 - it need not be raised
        return

    assert (list(variable.env), list(option.options)) == (["X"], ["x"])


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text("abc \"'\\#=", max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(VALUES)
def test_what_toml_can_write_is_read_as_toml(value):
    text = json.dumps(value)
    (found,) = assigned(f"m.options.x={text}")

    assert found.options["x"] == tomllib.loads(f"x = {text}")["x"] == value


@given(st.text(max_size=20))
def test_any_assignment_is_taken_or_refused_in_one_line(text):
    try:
        assigned(text)
    except SettingsError as error:
        assert "\n" not in str(error)  # noqa: PT017 - it need not be raised


# ---------------------------------------------------------------- refusals

REFUSED = {
    "unknown key": ("replcas = 2", "models.m: unknown key 'replcas', did you mean 'replicas'?"),
    "unknown key of batching": (
        "batching.size = 2", "models.m.batching: unknown key 'size'; known: max_batch_size, max_d",
    ),
    "key that stages do not have": ("stages.a.path = 'x'", "models.m.stages.a: unknown key 'path'"),
    "key that only we use": ("source = 'x'", "models.m: unknown key 'source'"),
    "no replicas of a stage": ("stages.a.replicas = 0", "stages.a.replicas: 0 is below 1"),
    "half a range": ("replicas = { min = 1 }", "models.m.replicas: a range needs max, such as"),
    "a range from 0": ("replicas = { min = 0, max = 2 }", "models.m.replicas.min: 0 is below 1"),
    "an empty range": ("replicas = { min = 3, max = 2 }", "replicas: min 3 is above max 2"),
    "more of a range": ("replicas = { min = 1, max = 2, by = 1 }", "unknown key 'by'"),
    "no switch": ("preload = 'yes'", "models.m.preload: 'yes' is not true or false"),
    "no size": ("max_memory = 'much'", "models.m.max_memory: 'much' is not a size such as 10MiB"),
    "too small a size": ("max_memory = '1KiB'", "models.m.max_memory: 1KiB is below 1MiB"),
    "idle at once": ("idle_s = 0", "models.m.idle_s: 0 is below 1"),
    "no CPUs": ("cpus = 'all'", "models.m.cpus: 'all' is not a list of CPUs such as 0-3,8"),
    "no threads": ("threads = 0", "models.m.threads: 0 is below 1"),
    "CPUs backwards": ("cpus = '3-1'", "models.m.cpus: 3-1 is an empty range of CPUs"),
    "too many replicas": ("replicas = 1025", "models.m.replicas: 1025 is above 1024"),
    "replicas as a switch": ("replicas = true", "models.m.replicas: true is not a whole number"),
    "replicas as a string": ("replicas = '2'", "models.m.replicas: '2' is not a whole number"),
    "empty batches": ("batching.max_batch_size = 0", "batching.max_batch_size: 0 is below 1"),
    "endless delay": ("batching.max_delay_ms = inf", "max_delay_ms: inf is above 60000"),
    "no delay": ("batching.max_delay_ms = nan", "max_delay_ms: nan is not a number"),
    "unknown devices": ("devices = 'gpu'", "'gpu' is not auto, cpu or a list such as [0, 1]"),
    "one device": ("devices = 0", "models.m.devices: 0 is not auto, cpu or a list such as [0, 1]"),
    "no devices": ("devices = []", "this list is not auto, cpu or a list such as [0, 1]"),
    "a negative device": ("devices = [-1]", "-1 is not a device such as 0 or GPU-8932f937"),
    "a variable as a number": ("env = { A = 1 }", "env.A: 1 is not a string; put it in quotes"),
    "a variable of ours": ("env = { SERVEKIT_PORT = '1' }", "SERVEKIT_PORT is reserved for the"),
    "no name of a variable": ("env = { 'A-B' = '1' }", "'A-B' is not the name of a variable"),
    "a NUL": ('env = { A = "\\u0000" }', "models.m.env.A: contains a NUL"),
    "a date": ("options.day = 2026-01-01", "options.day: 2026-01-01 cannot be expressed in JSON"),
    "a date in a list": ("options.d = [2026-01-01]", "models.m.options.d[0]: 2026-01-01 cannot be"),
    "a huge number": ("options.n = 9223372036854775808", "cannot be expressed in JSON"),
    "patterns as a string": ("pass_env = 'HF_*'", "pass_env: 'HF_*' is not a list of strings"),
    "no pattern": ("pass_env = ['A-B']", "models.m.pass_env: 'A-B' is not the name of a variable"),
    "no digest": ("sha256 = 'abc'", "models.m.sha256: 'abc' is not 64 hexadecimal digits"),
    "an empty path": ("path = ''", "models.m.path: is empty"),
    "options as a list": ("options = [1]", "models.m.options: this list is not a table"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED.values(), ids=REFUSED)
def test_refusal_names_the_file_the_key_and_the_value(tmp_path, line, message):
    with pytest.raises(SettingsError) as refusal:
        from_file(tmp_path, f"[models.m]\n{line}\n")

    assert str(refusal.value).startswith(f"{tmp_path}/servekit.toml: models.m")
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("m.replcas=2", "--set: m: unknown key 'replcas', did you", id="unknown key"),
        pytest.param("m=2", "'m=2' is not NAME.KEY=VALUE", id="no key"),
        pytest.param("m.replicas", "'m.replicas' is not NAME.KEY=VALUE", id="no value"),
        pytest.param("m..replicas=2", "is not NAME.KEY=VALUE", id="an empty part"),
        pytest.param("m.replicas=two", "m.replicas: 'two' is not a whole number", id="a word"),
        pytest.param("m.devices=[0,", "'[0,' is not auto, cpu or a list", id="half a list"),
    ],
)
def test_assignment_is_refused(text, message):
    with pytest.raises(SettingsError) as refusal:
        assigned(text)

    assert message in str(refusal.value)


def test_a_variable_has_assignments_as_a_shell_would_read_them(tmp_path):
    text = "digits.replicas=2 'digits.options.label=a b' digits.env.MODE=1"
    file = tmp_path / "servekit.toml"
    file.write_text("models.digits.replicas = 1")
    environment = {"SERVEKIT_SET": text}
    found = load_settings({"set": ["digits.replicas=3"]}, file, environment).deployments

    assert [(each.source, each.replicas) for each in found] == [
        ("servekit.toml", 1),
        ("SERVEKIT_SET", 2),
        ("--set", 3),
    ]
    assert (found[1].options, found[1].env) == ({"label": "a b"}, {"MODE": "1"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digits", "SERVEKIT_SET: 'digits' is not NAME.KEY=VALUE, such as digits.replicas=2"),
        ("digits.replica=2", "SERVEKIT_SET: digits: unknown key 'replica', did you mean"),
        ("'digits.replicas=2", "no closing quotation mark"),
    ],
)
def test_a_variable_with_a_mistake_is_named(text, message):
    with pytest.raises(SettingsError, match=message):
        load_settings({}, None, {"SERVEKIT_SET": text})


def test_a_key_cannot_be_a_value_and_a_table():
    with pytest.raises(SettingsError, match="options is set to a value too"):
        assigned("m.options=1", "m.options.x=2")


def test_a_list_of_models_and_tables_is_said_to_be_both(tmp_path):
    with pytest.raises(SettingsError, match=r"models is a list or tables, not both$"):
        from_file(tmp_path, "models = ['a.mar']\n[models.digits]\nreplicas = 2\n")


# ---------------------------------------------------------------- which models


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.mar", "b.mar"):
        (tmp_path / name).touch()
    return tmp_path


TABLES = "[models.a]\npath = 'a.mar'\n[models.b]\nreplicas = 2\n"


def test_a_table_with_a_path_serves_a_model_and_goes_with_those_of_the_command_line(here):
    settings = from_file(here, TABLES, models=["b=b.mar"])

    assert model_sources(settings) == [
        ModelSource(f"{here}/b.mar", "b"), ModelSource(f"{here}/a.mar", "a"),
    ]  # fmt: skip


def test_a_path_of_the_command_line_wins(here):
    settings = from_file(here, "[models.a]\npath = 'a.mar'\n", models=["a=b.mar"])

    assert model_sources(settings) == [ModelSource(f"{here}/b.mar", "a")]


def test_an_assigned_path_is_relative_to_the_working_directory(here):
    settings = load_settings({"set": ["a.path=b.mar"]}, None, {})

    assert model_sources(settings) == [ModelSource(f"{here}/b.mar", "a")]


@pytest.mark.parametrize(
    ("text", "flags", "complaint"),
    [
        pytest.param(TABLES, {}, "servekit.toml: no model is called 'b'; served: a", id="no path"),
        pytest.param(
            "", {"models": ["digits=a.mar"], "set": ["digts.replicas=2"]},
            "--set: no model is called 'digts', did you mean 'digits'?", id="misspelt",
        ),
        pytest.param(
            "[models.a]\npath = 'no.mar'", {},
            "servekit.toml: a.path: {here}/no.mar: no such file or directory", id="no such file",
        ),
        pytest.param("", {}, "models: none given", id="no model"),
        pytest.param(
            "[models.A]\npath = 'a.mar'", {"models": ["a=b.mar"]},
            "models: a and A are the same name", id="two names that differ in case",
        ),
        pytest.param(
            "", {"models": ["a=a.mar", "a=b.mar"]},
            "models: two models are called 'a': {here}/a.mar and {here}/b.mar", id="equal names",
        ),
        pytest.param(
            "", {"models": ["a=a.mar", "a=a.mar"]},
            "models: two models are called 'a': {here}/a.mar, given twice", id="equal models",
        ),
    ],
)  # fmt: skip
def test_models_are_refused(here, text, flags, complaint):
    settings = from_file(here, text, **flags)
    with pytest.raises(StartupError) as refusal:
        model_sources(settings)

    assert complaint.format(here=here) in str(refusal.value)


def test_a_model_whose_name_is_in_its_manifest_is_awaited(here):
    settings = load_settings({"models": ["a.mar"], "set": ["digits.replicas=2"]}, None, {})

    assert len(model_sources(settings)) == 1
    assert unknown_model(settings, ["digits"]) == ""
    assert "no model is called 'digits'" in unknown_model(settings, ["a"])


def test_the_strongest_source_comes_last(tmp_path):
    settings = from_file(
        tmp_path, "[models.m]\nreplicas = 2\n", set=["n.replicas=1", "m.replicas=3"], replicas="4"
    )

    assert [(each.source, each.replicas) for each in deployments_of(settings, "m")] == [
        ("--replicas", 4), ("servekit.toml", 2), ("--set", 3),
    ]  # fmt: skip
    assert len(deployments_of(settings, "")) == 4
    assert deployments_of(Settings(), "m") == []
