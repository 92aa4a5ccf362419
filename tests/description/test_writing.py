# SPDX-License-Identifier: Apache-2.0
"""A request that people have filled in, as code in every format."""

import shlex

import pytest
from msgspec import ValidationError, convert

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

    assert {name: text.count("SERVEKIT_PREDICT_TOKEN") for name, text in written.items()} == {
        "curl": 2, "python": 2, "requests": 2, "javascript": 2, "pytest": 2,
    }  # fmt: skip
    assert {
        next(line for line in text.splitlines() if " Set " in line)[2:].strip()
        for text in written.values()
    } == {"Set SERVEKIT_PREDICT_TOKEN in the environment: the token for predictions."}


@pytest.mark.parametrize(
    ("format_name", "shown"),
    [
        ("curl", ["?lang=de'", "-H 'x-user: it'\"'\"'s me'", '-H "x-api-key: ${X_API_KEY:?}"']),
        ("curl", ['--url-query "access%20token=${ACCESS_TOKEN:?}"']),
        ("python", ["'x-user': \"it's me\"", "'x-api-key': os.environ[\"X_API_KEY\"]"]),
        ("python", ["params={'lang': 'de', 'access token': os.environ[\"ACCESS_TOKEN\"]}"]),
        ("requests", ["?lang=de'", "'x-api-key': os.environ[\"X_API_KEY\"]"]),
        ("requests", ["params={'access token': os.environ[\"ACCESS_TOKEN\"]}"]),
        ("javascript", ['"x-user": "it\'s me"', '"x-api-key": process.env.X_API_KEY']),
        ("javascript", ['set("access token", process.env.ACCESS_TOKEN)', "fetch(url,"]),
        ("pytest", ["    http = httpx.Client(headers={'x-user'", "import httpx\nfrom"]),
    ],
)
def test_headers_and_parameters_are_written_and_secrets_are_not(described, format_name, shown):
    call = RequestToWrite(
        server=SERVER, path=PATH, value=1,
        headers={"x-user": "it's me", "x-api-key": None},
        query={"lang": "de", "access token": None},
    )  # fmt: skip
    text = write_all(described, call)[format_name]

    assert [each for each in shown if each not in text] == []
    assert "Set X_API_KEY in the environment: the value of the header x-api-key." in text
    assert "Set ACCESS_TOKEN in the environment: the parameter access token." in text


@pytest.mark.parametrize(
    ("accept", "shown"),
    [
        ("image/png", {
            "curl": "-o prediction.png \\\n  -H 'Accept: image/png'",
            "python": "Path('prediction.png').write_bytes(client.raw('m', json.dumps(item)",
            "requests": "Path('prediction.png').write_bytes(response.content)",
            "javascript": 'await writeFile("prediction.png", Buffer.from(',
            "pytest": "'image/png').body\n",
        }),
        ("text/csv", {
            "curl": "-H 'Accept: text/csv'",
            "python": "'text/csv').body.decode())",
            "requests": "print(response.text)",
            "javascript": "console.log(await response.text())",
            "pytest": "'text/csv').body.decode()",
        }),
        ("application/json", {
            "curl": "-H 'Accept: application/json'",
            "python": "client.predict('m', item)",
            "requests": 'response.json()["prediction"]',
            "javascript": "(await response.json()).prediction",
            "pytest": "client.predict('m', item)",
        }),
    ],
    ids=["a picture", "text", "JSON"],
)  # fmt: skip
def test_an_answer_is_asked_for_as_it_was_chosen(described, accept, shown):
    call = RequestToWrite(server=SERVER, path=PATH, value=1, accept=accept)
    written = write_all(described, call)

    assert {name for name, part in shown.items() if part not in written[name]} == set()
    compile(written["python"], "snippet.py", "exec")


def test_lines_of_json_are_shown_as_they_come(described):
    call = RequestToWrite(
        server=SERVER, path=PATH, value=1, accept="application/x-ndjson", streams=True
    )
    written = write_all(described, call)

    assert "process.stdout.write(piece)" in written["javascript"]
    assert "    print(line)\n" in written["requests"]
    assert "client.stream('m', item)" in written["python"]


@pytest.mark.parametrize("name", ['x"; rm -rf ~', "x$(id)", "", "a\n"])
def test_the_name_of_a_header_cannot_leave_its_quotes(name):
    with pytest.raises(ValidationError):
        convert({"server": SERVER, "path": PATH, "headers": {name: None}}, RequestToWrite)


def test_an_input_cannot_pose_as_the_token(described):
    value = "Authorization: Bearer $(touch x) $SERVEKIT_PREDICT_TOKEN"
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
