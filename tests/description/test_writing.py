# SPDX-License-Identifier: Apache-2.0
"""A request that people have filled in, as code in every format."""

import shlex

import pytest

from servekit.description.interface import describe
from servekit.description.snippets.writing import write_all
from servekit.extension import RequestToWrite
from servekit.ipc.table import Interface

PHOTO = {"properties": {"b64": {"contentEncoding": "base64", "contentMediaType": "image/*"}}}
SCHEMA = {"type": "object", "properties": {"image": PHOTO, "size": {"type": "integer"}}}
SERVER, PATH = "http://h:1/", "/m/predict"


@pytest.fixture
def described():
    known = Interface(input_schema=SCHEMA, consumes=["application/json"], produces=["image/png"])
    return describe({"name": "m"}, known)


def words(text):
    return shlex.split(text.replace(" \\\n", " "))


def test_a_form_keeps_its_files_apart_from_its_values(described):
    call = RequestToWrite(server=SERVER, path=PATH, value={"size": 3}, files={"image": "a.png"})
    written = write_all(described, call)

    assert words(written["curl"])[-4:] == ["-F", "image=@a.png", "--form-string", "size=3"]
    assert "'size': 3" in written["python"]
    assert "('a.png', Path('a.png').read_bytes())" in written["requests"]


def test_every_format_takes_the_token_from_the_environment(described):
    call = RequestToWrite(server=SERVER, path=PATH, value={"size": 3}, needs_token=True)
    written = write_all(described, call)

    assert {name: text.count("SERVEKIT_TOKEN") for name, text in written.items()} == {
        "curl": 1, "python": 1, "requests": 1, "javascript": 1, "pytest": 1,
    }  # fmt: skip


def test_an_input_cannot_pose_as_the_token(described):
    value = "Authorization: Bearer $(touch x) $SERVEKIT_TOKEN"
    call = RequestToWrite(server=SERVER, path=PATH, value=value, needs_token=True)

    assert f"-d '\"{value}\"'" in write_all(described, call)["curl"]


@pytest.mark.parametrize(
    ("output", "check"),
    [
        pytest.param({"a": 0.5}, "output == pytest.approx({'a': 0.5})", id="numbers"),
        pytest.param(["a"], "output == ['a']", id="text"),
        pytest.param({"a": [0.5]}, "output == {'a': [0.5]}", id="nested"),
    ],
)
def test_a_test_expects_the_output_that_was_seen(described, output, check):
    call = RequestToWrite(server=SERVER, path=PATH, value={"size": 3}, output=output)

    assert f"    assert {check}\n" in write_all(described, call)["pytest"]


def test_without_an_output_a_test_expects_any(described):
    call = RequestToWrite(server=SERVER, path=PATH, value={"size": 3})

    assert "assert output is not None" in write_all(described, call)["pytest"]


def test_a_file_whose_outputs_are_streamed_has_no_call_of_the_client(described):
    call = RequestToWrite(server=SERVER, path=PATH, file="a.png", streams=True)

    assert set(write_all(described, call)) == {"curl", "requests", "javascript"}


def test_several_inputs_are_sent_as_they_were_filled_in(described):
    body = {"instances": [{"size": 3}]}
    call = RequestToWrite(server=SERVER, path=PATH, value=body, instances=True)
    written = write_all(described, call)

    assert '{"instances":[{"size":3}]}' in written["curl"]
    assert "envelope=False" in written["python"]


def test_a_version_is_called_at_its_own_path(described):
    call = RequestToWrite(server=SERVER, path=PATH, value=1, version="2")

    assert "http://h:1/m/versions/2/predict" in write_all(described, call)["curl"]


@pytest.mark.parametrize(("value", "text"), [("pencil", "pencil"), ("1", '"1"'), (True, "true")])
def test_a_choice_in_a_form_is_read_as_what_it_is(described, value, text):
    call = RequestToWrite(server=SERVER, path=PATH, value={"size": value}, files={"image": "a.png"})

    assert words(write_all(described, call)["curl"])[-1] == f"size={text}"
