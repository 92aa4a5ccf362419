# SPDX-License-Identifier: Apache-2.0
"""What ``servekit snippet`` writes works as it stands; what ``describe`` says a server says too."""

import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from servekit.worker.inputs.media_leaf import PIXEL as PIXEL_B64

from .conftest import BIN, WAIT_S

PIXEL = base64.b64decode(PIXEL_B64)
HERE = Path(__file__).parent
SHIPPING, ECHO = (HERE.parents[1] / "examples" / name for name in ("shipping", "echo"))
GRID, POINTS, BARE = (HERE / "models" / name for name in ("grid", "points", "bare"))
LARGE = """
name = "large"
service = "service:Large"

[signature]
inputs = [
    { name = "image", dtype = "float32", shape = [3, 224, 224] },
    { name = "words", dtype = "str", shape = [-1] },
    { name = "gain", dtype = "float64", shape = [] },
]
"""
LARGE_SERVICE = """
from servekit import Service

class Large(Service):
    def predict(self, batch):
        return batch["image"].sum(axis=(1, 2, 3)) * batch["gain"]
"""
PHOTO = """
name = "photo"
service = "service:Photo"

[[examples]]
input_file = "a picture's.png"
"""
PHOTO_SERVICE = """
from servekit import Service

class Photo(Service):
    def preprocess(self, request):
        return [request.content_type, len(request.body)]

    def predict(self, batch):
        return batch
"""
WORDS = """
name = "words"
service = "service:Words"
"""
WORDS_SERVICE = """
from collections.abc import Iterator

from msgspec import Struct
from servekit import Service, endpoint
from servekit.types import Image, Text

class Photo(Struct):
    image: Image
    caption: Text
    size: int

class Words(Service):
    def stream(self, text: str) -> Iterator[str]:
        for place, word in enumerate(text.split() * 3):
            yield f"{word} {place}"

    @endpoint("photo", path="/v1/photos")
    def photo(self, batch: list[Photo]) -> list[str]:
        return [f"{each.image.size} {each.caption} {each.size}" for each in batch]

"""
SIZES = """
name = "sizes"
service = "service:Size"

[stages.double]
service = "service:Double"

[routes."/v1/sizes"]
steps = [{ stage = "predict", each = true }]

[routes."/v1/sizes/all"]
steps = ["predict", "double"]
instances = true
"""
SIZES_SERVICE = """
from servekit import Service

class Size(Service):
    def predict(self, batch: list[str]) -> list[int]:
        return [len(each) for each in batch]

class Double(Service):
    def predict(self, batch: list[int]) -> list[int]:
        return [2 * each for each in batch]
"""
PROGRAMS = {
    "curl": ("snippet.sh", ["sh"]),
    "python": ("snippet.py", [sys.executable]),
    "requests": ("asked.py", [sys.executable]),
    "javascript": ("snippet.mjs", ["node"]),
    "pytest": ("snippet_test.py", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]),
}
pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the directories of the models by name."""
    top = tmp_path_factory.mktemp("models")
    sources = {
        "large": (LARGE, LARGE_SERVICE),
        "photo": (PHOTO, PHOTO_SERVICE),
        "words": (WORDS, WORDS_SERVICE),
        "sizes": (SIZES, SIZES_SERVICE),
    }
    for name, (toml, service) in sources.items():
        (top / name).mkdir()
        (top / name / "model.toml").write_text(toml)
        (top / name / "service.py").write_text(service)
    (top / "photo/a picture's.png").write_bytes(b"\x89PNG" + bytes(1230))
    return {path.name: path for path in (SHIPPING, ECHO, GRID, POINTS, BARE, *top.iterdir())}


@pytest.fixture(scope="module")
def server(serve, models):
    return serve("--models", *models.values())


def snippet(run, *arguments):
    done = run("servekit", "snippet", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def follow(text, format_name, directory):
    """Run a snippet as its reader would and return what it prints."""
    name, program = PROGRAMS[format_name]
    if not shutil.which(program[0]):
        pytest.skip(f"{program[0]} is not installed")
    (directory / name).write_text(text)
    done = subprocess.run(
        [*program, name], cwd=directory, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("format_name", PROGRAMS)
@pytest.mark.parametrize(
    ("model", "more", "printed"),
    [
        pytest.param("shipping", [], r"12\.5\b.*\b4\b", id="an example"),
        pytest.param("echo", [], r"hello.*world", id="an example of anything"),
        pytest.param("grid", [], r"1\.5.*1\.5", id="a signature"),
        pytest.param("large", [], r"37632\b", id="a signature of large arrays"),
        pytest.param("photo", [], r"image/png.*1234", id="a file"),
        pytest.param("points", ["--import"], r"\b1(\.0)?\b", id="types"),
        pytest.param(
            "words", ["--import", "--stream"], r"text 0\W*\n(.*\n)*.*text 2", id="a stream"
        ),
        pytest.param("sizes", ["--import", "--path", "/v1/sizes"], r"\b4\b", id="a route"),
        pytest.param(
            "sizes", ["--import", "--path", "/v1/sizes/all"], r"\[.*\b8\b.*\]", id="instances"
        ),
        pytest.param("bare", [], r"^\[.a., ?.b.\]$", id="a bare output"),
        pytest.param(
            "bare", ["--import", "--stream"], r"^(data: )?a\n\n?(data: )?b\n", id="raw events"
        ),
        pytest.param(
            "bare", ["--import", "--path", "/v1/uppers"], r"^\[.TEXT.\]$", id="bare instances"
        ),
        pytest.param(
            "words",
            ["--import", "--path", "/v1/photos", "--form"],
            r"\(1, 1\) text 1",
            id="an endpoint with a form",
        ),
    ],
)
def test_a_snippet_works(run, server, models, tmp_path, format_name, model, more, printed):
    (tmp_path / "image.png").write_bytes(PIXEL)  # the reader's own
    flags = ["--format", format_name, "--url", f"{server.url}/", *more]
    text = snippet(run, models[model], *flags)

    wanted = "1 passed" if format_name == "pytest" else printed
    assert re.search(wanted, follow(text, format_name, tmp_path), re.MULTILINE)


@pytest.mark.parametrize("format_name", PROGRAMS)
def test_the_snippet_of_an_archive_says_how_its_file_gets_out(
    run, server, models, tmp_path, format_name
):
    archive = tmp_path / "photo.mar"
    assert run("servekit-archive", "build", models["photo"], "-o", archive).returncode == 0
    text = snippet(run, "photo.mar", "--format", format_name, "--url", server.url)
    program, *arguments = shlex.split(text.splitlines()[0].partition("archive: ")[2])
    subprocess.run([BIN / program, *arguments], cwd=tmp_path, check=True, capture_output=True)

    wanted = "1 passed" if format_name == "pytest" else "1234"
    assert wanted in follow(text, format_name, tmp_path)


@pytest.mark.parametrize(("flag", "path"), [("--openapi", "/openapi.json"), ("--swagger", "")])
def test_a_model_is_described_as_its_server_describes_it(run, server, models, flag, path):
    told = json.loads(server.get(path or "/api-description")[1])
    told = told if path else told["description"]
    for name in ("shipping", "grid", "points", "words", "sizes", "bare"):
        done = run("servekit", "describe", models[name], flag, "--import")
        for place, found in json.loads(done.stdout)["paths"].items():
            assert found == told["paths"][place]
