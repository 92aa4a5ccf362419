# SPDX-License-Identifier: Apache-2.0
"""``servekit describe`` and ``servekit snippet``: what can be said without loading a model."""

import json
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV31SpecValidator
from servekit_archiver import build_archive

from servekit.cli import main
from servekit.cli.parsing.exit_status import OK, PROBLEM_FOUND, STARTUP_FAILED, USAGE

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS, SHIPPING, ECHO = (EXAMPLES / name for name in ("digits", "shipping", "echo"))
STAGED = """
name = "staged"
service = "service:Typed"

[stages.words]
service = "service:Words"

[routes."/v1/words"]
steps = ["words"]
description = "Counts."

[routes."/v1/words/all"]
steps = ["predict", "words"]
instances = true
"""
SERVICES = """
from collections.abc import Iterator

from msgspec import Struct
from servekit import Service, endpoint

class Text(Struct):
    text: str

class Typed(Service):
    request_headers = ("x-tenant",)

    def predict(self, batch):
        return batch

    @endpoint("length")
    def length(self, batch: list[str]) -> list[int]:
        return [len(each) for each in batch]

class Words(Service):
    request_headers = ("accept-language",)

    def stream(self, text: Text) -> Iterator[str]:
        yield from text.text.split()
"""
TYPED = """
import sys
from pathlib import Path

from servekit import Service

Path(r"{marker}").touch()
print("said while imported", flush=True)
sys.stderr.write("and this\\n")

class Typed(Service):
    def __init__(self):
        raise AssertionError("constructed")

    def load(self, context):
        raise AssertionError("loaded")

    def predict(self, batch: list[{kind}]):
        return batch
"""


UNTYPED = """
from servekit import Service

class Untyped(Service):
    def predict(self, batch):
        return batch
"""


@pytest.fixture
def untyped(tmp_path):
    """A model of which neither the manifest nor the code says what it takes."""
    (tmp_path / "model.toml").write_text('name = "u"\nservice = "service:Untyped"\n')
    (tmp_path / "service.py").write_text(UNTYPED)
    return tmp_path


@pytest.fixture
def say(capfd, monkeypatch, tmp_path):
    """Return ``say(*arguments)``, which gives exit status, stdout and stderr."""
    monkeypatch.setenv("SERVEKIT_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments):
        try:
            status = main([str(each) for each in arguments])
        except SystemExit as ended:
            status = ended.code
        return status, *capfd.readouterr()

    return run


@pytest.fixture
def model(tmp_path):
    """Return ``model(source)``: a directory with that module and nothing declared."""

    def write(source):
        directory = tmp_path / "model"
        directory.mkdir()
        (directory / "model.toml").write_text('name = "typed"\nservice = "service:Typed"\n')
        (directory / "service.py").write_text(source)
        return directory

    return write


def typed(tmp_path, kind="int"):
    return TYPED.format(marker=tmp_path / "marker", kind=kind)


def test_a_table_tells_what_the_manifest_declares(say):
    status, text, error = say("describe", DIGITS)

    assert (status, error) == (OK, "")
    assert [line.split(None, 1) for line in text.splitlines()] == [
        ["model", "digits 1.0"],
        [
            "about",
            "Reads one handwritten digit, from an 8x8 array (0 is paper, 16 is ink) or a picture.",
        ],
        ["service", "service:Digits"],
        ["predict", "POST /digits/predict"],
        ["input", "image  float32[8, 8]"],
        ["output", "digit  int64[]"],
        ["output", "probabilities  float64[10]"],
        ["example", "three.png"],
    ]


def test_types_are_read_if_the_module_may_be_imported(say):
    _, without, _ = say("describe", SHIPPING)
    status, text, _ = say("describe", SHIPPING, "--import")

    assert "input       not declared in the manifest" in without
    assert status == OK
    for line in (
        "input       weight_kg  number, > 0, <= 30",
        'input       to  "DE" | "FR" | "US"',
        "input       express  boolean, optional",
        "output      days  whole number",
        'example     {"weight_kg":2.5,"to":"FR"} -> {"price_eur":12.5,"days":4}',
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize(
    ("flag", "validator"),
    [("--openapi", OpenAPIV31SpecValidator), ("--swagger", OpenAPIV2SpecValidator)],
)
@pytest.mark.parametrize("more", [[], ["--import"]])
@pytest.mark.parametrize("path", [DIGITS, SHIPPING, ECHO], ids=lambda path: path.name)
def test_the_documents_are_valid(say, flag, validator, more, path):
    status, text, _ = say("describe", path, flag, *more)
    document = json.loads(text)

    validator(document).validate()
    assert status == OK
    assert f"/{path.name}/predict" in document["paths"]


def test_the_facts_are_one_object(say):
    _, text, _ = say("describe", SHIPPING, "--import", "--json")
    found = json.loads(text)
    [facts] = found["paths"]

    assert facts["input_schema"] == {"$ref": "#/$defs/shipping.Parcel"}
    assert "weight_kg" in facts["definitions"]["shipping.Parcel"]["properties"]
    assert (facts["path"], facts["is_imported"]) == ("/shipping/predict", True)
    assert found["services"] == {"predict": "service:Shipping"}
    assert facts["examples"][0]["input"] == {"weight_kg": 2.5, "to": "FR"}


def test_no_code_of_the_model_runs_unless_asked_for(say, model, tmp_path):
    directory = model(typed(tmp_path))
    for flags in ([], ["--openapi"], ["--swagger"], ["--json"]):
        assert say("describe", directory, *flags)[0] == OK
    say("snippet", directory)

    assert not (tmp_path / "marker").exists()


def test_import_constructs_and_loads_nothing_and_keeps_output_apart(say, model, tmp_path):
    status, text, error = say("describe", model(typed(tmp_path)), "--import", "--json")

    assert status == OK
    assert json.loads(text)["paths"][0]["input_schema"] == {"type": "integer"}
    assert error == "said while imported\nand this\n"
    assert (tmp_path / "marker").exists()


def test_an_archive_is_described_as_its_directory(say, tmp_path):
    archive = tmp_path / "shipping.mar"
    build_archive(SHIPPING, archive)

    for flags in (["--openapi"], ["--json", "--import"]):
        packed, plain = (say("describe", path, *flags)[1] for path in (archive, SHIPPING))
        assert json.loads(packed) == json.loads(plain)


def test_nothing_is_claimed_of_a_service_that_declares_nothing(say):
    _, text, _ = say("describe", ECHO, "--import", "--json")

    assert json.loads(text)["paths"][0]["is_imported"] is False


def test_what_a_module_leaves_running_holds_nobody_up(say, model, tmp_path):
    thread = "import threading; threading.Thread(target=threading.Event().wait).start()\n"
    status, text, _ = say("describe", model(thread + typed(tmp_path)), "--import", "--json")

    assert (status, json.loads(text)["paths"][0]["input_schema"]) == (OK, {"type": "integer"})


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param("1 / 0", "ZeroDivisionError: division by zero (service.py:1)", id="raises"),
        pytest.param("raise SystemExit(7)", "SystemExit: 7 (service.py:1)", id="exits"),
        pytest.param("import os; os._exit(0)", "cannot be imported", id="ends the process"),
        pytest.param(
            "Typed = 3", "service:Typed: 3 is not a subclass of servekit.Service", id="no service"
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(say, model, source, line):
    directory = model(source)
    status, text, error = say("describe", directory, "--import")

    assert (status, text) == (STARTUP_FAILED, "")
    assert line in error
    assert error.splitlines()[-1] == f"servekit: {directory}: its service cannot be imported"


@pytest.mark.parametrize("command", ["describe", "snippet"])
@pytest.mark.parametrize(
    ("content", "line"),
    [(None, "no such file"), (b"PK", "x.mar"), (b"", "x.mar")],
)
def test_what_is_no_model_is_refused_in_one_line(say, tmp_path, command, content, line):
    path = tmp_path / "x.mar"
    if content is not None:
        path.write_bytes(content)
    status, text, error = say(command, path)

    assert (status, text) == (STARTUP_FAILED, "")
    assert line in error.lower()
    assert error.count("\n") == 1


def test_every_problem_of_a_manifest_is_told(say, tmp_path):
    (tmp_path / "model.toml").write_text('name = ""\nservice = "x:"\n')
    status, _, error = say("describe", tmp_path)

    assert status == STARTUP_FAILED
    assert error.count("\n") >= 2


def test_a_call_needs_an_input_to_show(say, model, tmp_path):
    directory = model(typed(tmp_path))
    status, text, error = say("snippet", directory)

    assert (status, text) == (PROBLEM_FOUND, "")
    assert error.startswith(
        "servekit: /typed/predict: nothing says what it takes: give it [[examples]]"
    )
    status, text, _ = say("snippet", directory, "--import")

    assert (status, text.splitlines()[-1].strip()) == (OK, "-d 1")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "file:///etc", "http://a b"])
def test_a_url_is_that_of_a_server(say, url):
    status, _, error = say("snippet", ECHO, "--url", url)

    assert status == USAGE
    assert "begins with neither http:// nor https://" in error


@pytest.fixture
def staged(tmp_path):
    """Return a directory with a model of two stages, two routes and an endpoint."""
    (tmp_path / "model.toml").write_text(STAGED)
    (tmp_path / "service.py").write_text(SERVICES)
    return tmp_path


def test_every_path_is_described(say, staged):
    _, without, _ = say("describe", staged, "--json")
    status, text, _ = say("describe", staged, "--import", "--json")
    routes = ["/staged/predict", "/v1/words", "/v1/words/all"]
    found = {each["path"]: each for each in json.loads(text)["paths"]}

    assert [each["path"] for each in json.loads(without)["paths"]] == routes
    assert status == OK
    assert list(found) == [routes[0], "/staged/length", *routes[1:]]
    assert found["/staged/predict"]["is_imported"] is False  # its service says nothing of itself
    assert found["/staged/length"]["output_schema"] == {"type": "integer"}
    assert found["/v1/words"]["streams"] is True
    assert found["/v1/words"]["description"] == "Counts."
    assert found["/v1/words/all"]["instances"] is True


def test_a_table_has_every_path(say, staged):
    _, text, _ = say("describe", staged, "--import")
    _, one, _ = say("describe", staged, "--path", "/v1/words")
    found = [line.split(None, 1) for line in text.splitlines() if line.startswith("predict")]

    assert [words for _, words in found] == [
        "POST /staged/predict",
        "POST /staged/length",
        "POST /v1/words",
        "POST /v1/words/all",
    ]
    assert "headers     accept-language" in text.splitlines()
    assert "POST /v1/words" in one
    assert "POST /staged/predict" not in one


@pytest.mark.parametrize(
    ("flag", "validator"),
    [("--openapi", OpenAPIV31SpecValidator), ("--swagger", OpenAPIV2SpecValidator)],
)
def test_documents_of_many_paths_are_valid(say, staged, flag, validator):
    document = json.loads(say("describe", staged, flag, "--import")[1])
    post = document["paths"]["/v1/words"]["post"]

    validator(document).validate()
    assert {"accept-language"} == {
        each["name"] for each in post["parameters"] if each.get("in") == "header"
    }


def test_a_path_that_nothing_answers_at_is_told_with_those_that_are(say, staged):
    for command in ("describe", "snippet"):
        status, text, error = say(command, staged, "--path", "/v1/wrods")

        assert (status, text) == (STARTUP_FAILED, "")
        assert error == (
            "servekit: staged: nothing answers at /v1/wrods; known: /staged/predict, /v1/words, "
            "/v1/words/all\n"
        )
    assert say("snippet", staged, "--path", "v1")[0] == USAGE


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--path", "/staged/length", "--stream"], "do not come one by one"),
        (["--path", "/v1/words/all", "--form"], "several instances cannot be sent as a form"),
        (["--path", "/staged/length", "--form"], "nothing says which fields it has"),
    ],
)
def test_a_call_that_cannot_be_is_refused(say, staged, flags, reason):
    status, text, error = say("snippet", staged, "--import", *flags)

    assert (status, text) == (PROBLEM_FOUND, "")
    assert reason in error


@pytest.mark.parametrize("command", [["describe"], ["snippet"], ["snippet", "--form"]])
def test_import_is_advised_only_to_those_who_did_not_give_it(say, untyped, command):
    told = "".join(map(str, say(*command, untyped)[1:]))
    told_again = "".join(map(str, say(*command, untyped, "--import")[1:]))

    assert "--import" in told
    assert "--import" not in told_again
    assert "types of" in told_again


def test_an_async_service_is_described_with_its_bound(say, tmp_path):
    (tmp_path / "model.toml").write_text(
        'name = "waits"\nservice = "service:Waits"\n[batching]\nmax_concurrency = 7\n'
    )
    (tmp_path / "service.py").write_text(
        "from servekit import Service\n\nclass Waits(Service):\n"
        "    async def predict(self, value: int) -> str: ...\n"
    )
    status, text, _ = say("describe", tmp_path, "--import")
    facts = json.loads(say("describe", tmp_path, "--import", "--json")[1])

    assert status == OK
    assert "service:Waits, async, at most 7 at a time" in text
    assert facts["max_concurrency"] == {"predict": 7}
    assert facts["paths"][0]["input_schema"] == {"type": "integer"}
