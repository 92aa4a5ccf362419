# SPDX-License-Identifier: Apache-2.0
"""Where the bodies of requests come from, and which addresses there are."""

import pytest
from servekit_bench.load import Target, Tls
from servekit_bench.targets.addresses import is_address, parse_address
from servekit_bench.targets.inputs import (
    BodyInput,
    described_inputs,
    file_inputs,
    packaged_inputs,
)

from servekit.errors import StartupError

MODEL = """
name = "digits"
service = "service:Digits"
[[examples]]
input = { x = [1, 2] }
[[examples]]
input_file = "three.png"
"""


def test_files_directories_and_json_lines(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.npy").write_bytes(b"2")
    (tmp_path / "more" / "a.json").write_bytes(b"1")
    (tmp_path / "more" / ".hidden").write_bytes(b"0")
    (tmp_path / "lines.jsonl").write_bytes(b"[3]\n\n[4]\n")

    found = file_inputs([tmp_path / "more", tmp_path / "lines.jsonl"], "")

    assert found == [
        BodyInput(b"1", "application/json"),
        BodyInput(b"2", "application/x-npy"),
        BodyInput(b"[3]", "application/json"),
        BodyInput(b"[4]", "application/json"),
    ]


def test_the_caller_may_name_the_media_type(tmp_path):
    (tmp_path / "x.dat").write_bytes(b"1")

    assert file_inputs([tmp_path / "x.dat"], "image/png") == [BodyInput(b"1", "image/png")]


def test_without_any_file_there_is_an_error(tmp_path):
    with pytest.raises(StartupError, match="no input"):
        file_inputs([tmp_path], "")
    with pytest.raises(StartupError, match="No such file"):
        file_inputs([tmp_path / "none"], "")


def test_examples_of_a_model_directory(tmp_path):
    (tmp_path / "model.toml").write_text(MODEL, encoding="utf-8")
    (tmp_path / "service.py").touch()
    (tmp_path / "three.png").write_bytes(b"png")

    assert packaged_inputs(tmp_path) == [
        BodyInput(b'{"x":[1,2]}', "application/json"),
        BodyInput(b"png", "image/png"),
    ]


def test_examples_of_an_api_description():
    content = {
        "image/png": {},
        "application/json": {"examples": {"a": {"value": [1]}, "b": {"value": [2]}}},
    }
    document = {"paths": {"/a/predict": {"post": {"requestBody": {"content": content}}}}}

    found = described_inputs(document, "/a/predict?verbose=1")

    assert [each.body for each in found] == [b"[1]", b"[2]"]
    assert described_inputs(document, "/b/predict") == []
    assert described_inputs(None, "/a/predict") == []


@pytest.mark.parametrize(
    ("text", "target", "path"),
    [
        ("http://host:8080/", Target("host", 8080, ()), ""),
        ("http://host/a/predict?x=1", Target("host", 80, ()), "/a/predict?x=1"),
        ("https://[::1]:9/b", Target("::1", 9, (), tls=Tls()), "/b"),
        ("unix:/run/s", Target("localhost", 0, (), unix_path="/run/s"), ""),
    ],
    ids=["root", "path", "tls", "unix"],
)
def test_addresses(text, target, path):
    assert is_address(text)
    assert parse_address(text, Tls()) == (target, path)


@pytest.mark.parametrize("text", ["http://", "http://host:port"])
def test_addresses_that_are_not_valid(text):
    with pytest.raises(StartupError):
        parse_address(text, Tls())


def test_an_archive_is_not_an_address():
    assert not is_address("digits.mar")
