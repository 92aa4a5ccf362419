# SPDX-License-Identifier: Apache-2.0
"""Numbers on every command line: those that make no sense are refused, with the reason."""

import argparse

import pytest
from servekit_archiver.cli import create_parser as archiver_parser

from servekit.cli.parsing.command_table import installed_commands
from servekit.cli.parsing.parser import create_parser
from servekit.settings import arguments
from servekit.settings.arguments import NumberArgument, output_file

TABLE = installed_commands()
#: what no number may be
SENSELESS = ("-1", "nan", "inf", "1e999", "x", "")


def actions_of(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from actions_of(each)
        else:
            yield action


@pytest.mark.parametrize("name", sorted(TABLE.commands))
def test_every_number_of_a_command_is_in_a_range(name):
    parser = create_parser(name, TABLE)

    unchecked = [each.dest for each in actions_of(parser) if each.type in (int, float)]
    assert unchecked == []


def test_the_archiver_takes_no_number_without_a_range():
    unchecked = [each for each in actions_of(archiver_parser()) if each.type in (int, float)]

    assert unchecked == []


@pytest.mark.parametrize(
    "name",
    [name for name in arguments.__all__ if isinstance(vars(arguments)[name], NumberArgument)],
)
@pytest.mark.parametrize("text", SENSELESS)
def test_what_is_no_sensible_number_is_refused(name, text):
    with pytest.raises(argparse.ArgumentTypeError):
        vars(arguments)[name](text)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("count", "0", "0 is below 1"),
        ("count", "1.5", "'1.5' is not a whole number"),
        ("positive", "0", "0 is not above 0"),
        ("duration", "0s", "0s is not above 0"),
        ("duration", "fast", "'fast' is not a time such as 20ms, 1.5s or 2m"),
        ("share", "1.5", "1.5 is above 1"),
        ("port", "65536", "65536 is above 65535"),
        ("size_in_bytes", "much", "'much' is not a size such as 10MiB"),
    ],
)
def test_the_reason(name, text, told):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        vars(arguments)[name](text)

    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", 0.02), ("1.5s", 1.5), ("2m", 120), ("3", 3), ("50us", 5e-5), ("1h", 3600)],
)
def test_times_have_units(text, seconds):
    assert arguments.duration(text) == pytest.approx(seconds)


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path):
    assert output_file(str(tmp_path / "new.html")) == tmp_path / "new.html"
    with pytest.raises(argparse.ArgumentTypeError, match="is a directory"):
        output_file(str(tmp_path))
    with pytest.raises(argparse.ArgumentTypeError, match="no such directory"):
        output_file(str(tmp_path / "none" / "a.html"))
