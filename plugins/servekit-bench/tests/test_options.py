# SPDX-License-Identifier: Apache-2.0
"""The flags of ``servekit bench``."""

import argparse

import pytest
from servekit_bench.command import bench
from servekit_bench.load import ClosedLoop, OpenLoop
from servekit_bench.options import header, load_of, setting, target_options
from servekit_bench.tune.command import tune

from servekit.errors import StartupError


def parse(*words):
    parser = argparse.ArgumentParser()
    bench(parser)
    return parser.parse_args(["http://127.0.0.1:1", *words])


def test_a_header_without_a_value_is_refused():
    with pytest.raises(argparse.ArgumentTypeError, match="is not NAME: VALUE"):
        header("no colon")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--deadline", "0"], id="no time"),
        pytest.param(["--duration", "0s"], id="no duration"),
        pytest.param(["--rate", "nan"], id="NaN requests"),
        pytest.param(["--connections", "-1"], id="fewer than no connections"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parse(*words)

    assert f"{words[0]}: " in capsys.readouterr().err


def test_a_header_has_a_name_and_a_value():
    assert header("X-Tenant: a:b") == ("X-Tenant", "a:b")


def test_options_of_the_server():
    assert setting("front-ends=2") == ("front_ends", "2")
    assert setting("watch=true") == ("watch", True)


def test_the_load_is_a_closed_loop_without_a_rate():
    assert load_of(parse()) == ClosedLoop(8)
    assert load_of(parse("-c", "3")) == ClosedLoop(3)
    assert load_of(parse("-r", "50")) == OpenLoop(50, "poisson", 128)
    assert load_of(parse("-r", "50", "--arrivals", "constant", "-c", "9")) == OpenLoop(
        50, "constant", 9
    )


def test_settings_of_the_other_target_are_added_to_those_of_both():
    parsed = parse("--set", "a.replicas=1", "--other-set", "a.x=2", "--other-serve", "port=9")

    assert target_options(parsed).settings == {"set": ["a.replicas=1"]}
    assert target_options(parsed, is_other=True).settings == {
        "port": "9",
        "set": ["a.replicas=1", "a.x=2"],
    }


def test_the_token_is_sent(tmp_path):
    file = tmp_path / "token"
    file.write_text("secret\nanother\n", encoding="utf-8")

    headers = target_options(parse("--token-file", str(file), "--stream")).headers

    assert headers == (("Authorization", "Bearer secret"), ("Accept", "text/event-stream"))


def test_a_token_file_that_is_missing(tmp_path):
    with pytest.raises(StartupError, match="--token-file"):
        target_options(parse("--token-file", str(tmp_path / "none")))


@pytest.mark.parametrize("command", [bench, tune])
@pytest.mark.parametrize("path", ["none/a.html", "."])
def test_a_report_that_cannot_be_written_is_said_before_the_measurement(
    command, path, tmp_path, capsys
):
    parser = argparse.ArgumentParser()
    command(parser)
    more = ["--p99", "1s"] if command is tune else []
    with pytest.raises(SystemExit):
        parser.parse_args(["nothing.mar", *more, "--html", str(tmp_path / path)])

    assert "argument --html: " in capsys.readouterr().err


def test_a_server_that_runs_is_not_tuned():
    parser = argparse.ArgumentParser()
    run = tune(parser)

    with pytest.raises(StartupError, match="give an archive or model directory"):
        run(parser.parse_args(["http://127.0.0.1:1", "--p99", "1s"]))
