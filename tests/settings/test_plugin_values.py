# SPDX-License-Identifier: Apache-2.0
"""Settings of plugins: where they come from, which source wins, and what is refused."""

import dataclasses
import json
from typing import Annotated

import msgspec
import pytest

from servekit.settings import SettingsError, load_settings
from servekit.settings.plugin_values import known_settings, plugin_settings


class Paint(msgspec.Struct, frozen=True):
    colour: Annotated[str, msgspec.Meta(description="what is painted with")] = "red"
    coats: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    is_wet: bool = False
    tones: list[str] = []


class Glue(msgspec.Struct):
    max_drops: int = 3


KINDS = {"paint": Paint, "super-glue": Glue}


def read(flags=(), toml="", environment=None, *, tmp_path):
    file = tmp_path / "servekit.toml"
    file.write_text(toml)
    found = load_settings({"plugin": list(flags)}, file, environment or {})
    json.dumps(dataclasses.asdict(found))  # front-ends read them from a file of JSON
    return plugin_settings(found.plugins, KINDS)


def test_flag_wins_over_variable_over_file_over_default(tmp_path):
    toml = '[plugins.paint]\ncolour = "blue"\ncoats = 2\nis_wet = true\n'
    variables = {"SERVEKIT_PLUGIN_PAINT_COLOUR": "green", "SERVEKIT_PLUGIN_PAINT_COATS": "3"}
    found = read(["paint.coats=4"], toml, variables, tmp_path=tmp_path)

    assert found["paint"] == Paint(colour="green", coats=4, is_wet=True)
    assert found["super-glue"] == Glue()


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        pytest.param("paint.colour=7", Paint(colour="7"), id="a number for a string"),
        pytest.param("paint.colour=a=b.c", Paint(colour="a=b.c"), id="a value with = and a dot"),
        pytest.param("paint.is_wet=true", Paint(is_wet=True), id="a switch"),
        pytest.param('paint.tones=["a", "b"]', Paint(tones=["a", "b"]), id="a list of TOML"),
    ],
)
def test_a_text_becomes_what_the_plugin_wants(tmp_path, flag, expected):
    assert read([flag], tmp_path=tmp_path)["paint"] == expected


def test_a_variable_names_a_plugin_with_a_hyphen(tmp_path):
    environment = {"SERVEKIT_PLUGIN_SUPER_GLUE_MAX_DROPS": "5"}

    assert read(environment=environment, tmp_path=tmp_path)["super-glue"] == Glue(max_drops=5)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[plugins.paint]\ncolor = 'x'", "plugins.paint.color: unknown key 'color', did you mean"),
        ("[plugins.pant]\ncoats = 1", "plugins.pant.coats: no plugin 'pant' has settings, did you"),
        ("[plugins.paint]\ncoats = '1'", "plugins.paint.coats: expected int, got str"),
        ("[plugins.paint]\ncoats = 10", "plugins.paint.coats: expected int <= 9"),
        ("[plugins.paint]\ntones = [1]", "plugins.paint.tones[0]: expected str, got int"),
    ],
)
def test_a_refused_value_names_its_place_in_the_file(tmp_path, toml, message):
    with pytest.raises(ValueError, match=r".*") as caught:
        read(toml=toml, tmp_path=tmp_path)

    assert str(caught.value).startswith(f"{tmp_path}/servekit.toml: {message}")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("plugins = 1", "plugins: 1 is not a table"),
        ("[plugins]\npaint = 'red'", "plugins.paint: 'red' is not a table"),
        ("[plugins.paint]\ncolour = 1979-05-27", "plugins.paint.colour: 1979-05-27 cannot be"),
    ],
)
def test_a_table_that_cannot_be_one_is_refused_by_whoever_reads_the_file(tmp_path, toml, message):
    with pytest.raises(SettingsError) as caught:
        read(toml=toml, tmp_path=tmp_path)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("paint", "--plugin: 'paint' is not NAME.KEY=VALUE"),
        ("paint=1", "--plugin: 'paint=1' is not NAME.KEY=VALUE"),
        (".coats=1", "--plugin: '.coats=1' is not NAME.KEY=VALUE"),
        ("paint.coats=many", "--plugin paint.coats: expected int, got str"),
        ("paint.coat=1", "--plugin paint.coat: unknown key 'coat', did you mean 'coats'?"),
    ],
)
def test_a_refused_flag_is_named(tmp_path, flag, message):
    with pytest.raises((SettingsError, ValueError)) as caught:
        read([flag], tmp_path=tmp_path)

    assert str(caught.value).startswith(message)


def test_a_plugin_that_merely_shares_letters_is_not_suggested(tmp_path):
    with pytest.raises(ValueError, match=r"no plugin 'panic' has settings$"):
        read(["panic.coats=1"], tmp_path=tmp_path)


def test_a_variable_that_no_plugin_has_is_named(tmp_path):
    with pytest.raises(
        ValueError, match=r"SERVEKIT_PLUGIN_PAINT_COAT: no plugin has this setting, d"
    ):
        read(environment={"SERVEKIT_PLUGIN_PAINT_COAT": "2"}, tmp_path=tmp_path)


def test_what_a_plugin_can_register():
    found = known_settings(Paint)

    assert list(found) == ["colour", "coats", "is_wet", "tones"]
    assert found["colour"].help == "what is painted with"
    assert found["tones"].default == []


class Needy(msgspec.Struct):
    colour: str


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param(Needy, "colour has no default", id="a field without a default"),
        pytest.param(dict, "is not a subclass of msgspec.Struct", id="another class"),
        pytest.param(Paint(), "is not a subclass of msgspec.Struct", id="an instance"),
    ],
)
def test_what_a_plugin_cannot_register(kind, message):
    with pytest.raises(ValueError, match=message):
        known_settings(kind)
