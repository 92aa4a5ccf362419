# SPDX-License-Identifier: Apache-2.0
"""The wheels: what they hold, what an index shows of them, and that they work without the checkout.

Built with hatchling as it is installed. The interpreter that runs the tests has its packages at
hand; another one gets them from the index, which `make wheels` allows.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HOME = "https://github.com/servekit/servekit"
PROJECTS = [ROOT, ROOT / "archiver", *sorted((ROOT / "plugins").glob("servekit-*"))]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
PROJECT_IDS = ["servekit", "servekit-archiver", *(project.name for project in PROJECTS[2:])]

LINKS = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]\n]+\]: (\S+)", re.MULTILINE)

SERVICE = '''\
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from servekit import (
    Array, ClientError, Context, Done, InputError, Request, Response, Service, endpoint, hookimpl,
)
from servekit.client import AsyncClient
from servekit.errors import QueueFull
from servekit.hookspecs import PredictionRequest
from servekit.testing import ServedModel, ServiceClient
from servekit.types import Audio, File, Image
from servekit_archiver import build_archive
from servekit_client import Client


class Sums(Service):
    """Uses what an author has at hand."""

    request_headers = ("x-user",)

    def load(self, context: Context) -> None:
        self.factor = float(context.options.get("factor", 1))

    def preprocess(self, request: Request) -> list[float]:
        if not isinstance(request.input, list):
            raise InputError("expected a list")
        return [float(each) for each in request.input]

    def predict(self, batch: list[list[float]]) -> list[float | InputError | Response]:
        return [sum(each) * self.factor if each else InputError("no numbers") for each in batch]

    @endpoint("/sums/largest")
    def largest(self, batch: list[list[float]]) -> list[float]:
        return [max(each) for each in batch]


class Words(Service):
    def stream(self, text: str) -> Iterator[str]:
        if not text:
            raise ClientError("no text")
        yield from text.split()


class Pictures(Service):
    def load(self, context: Context) -> None:
        self.weights = context.load_array("weights.npy")
        self.seen = context.metrics.counter("seen", "Pictures seen")
        context.logger.info("loaded as replica %d", context.replica)

    def predict(self, batch: list[Image]) -> list[list[int]]:
        self.seen.inc()
        return [list(image.size) for image in batch]

    @endpoint(path="/v1/files")
    def files(self, batch: list[File]) -> list[str]:
        return [file.name for file in batch]

    @endpoint()
    def seconds(self, batch: list[Audio]) -> list[float]:
        return [len(sound.samples) / sound.sample_rate for sound in batch]


@hookimpl
def register_services() -> Mapping[str, str]:
    return {"pictures": "service:Pictures"}


@hookimpl
def authorize(request: PredictionRequest) -> QueueFull | None:
    return QueueFull() if request.model == "busy" else None


async def call(url: str) -> object:
    async with AsyncClient(url) as client:
        return await client.predict("sums", [1, 2])


def test_in_process() -> None:
    assert ServiceClient(Words).predict(["a b"]) == [["a", "b"]]


def total(values: NDArray[np.float32], url: str) -> float:
    build_archive("sums", "sums.mar", force=True)
    with Client(url) as client:
        return float(client.predict("sums", values.tolist())) + len(Array.__name__ + Done.__name__)


def test(model: ServedModel) -> None:
    assert model.predict([1, 2]).json()
'''

SERVED = """\
import servekit, servekit_archiver
from servekit.testing import ServedModel

with ServedModel("hello.mar") as model:
    print(model.wait_ready().predict({"name": "Ada"}).body.decode())
print(servekit.__file__)
print(servekit_archiver.__file__)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Build the wheel of every distribution."""
    place = tmp_path_factory.mktemp("wheels")
    return {
        name: Path(next(WheelBuilder(str(project)).build(directory=str(place))))
        for name, project in zip(PROJECT_IDS, PROJECTS, strict=True)
    }


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        (name,) = (each for each in file.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(file.read(name))


#: distributions with files of other projects
LICENSES = {
    "servekit-console": (
        "Apache-2.0 AND MIT AND 0BSD",
        ["LICENSE", "servekit_console/static/LICENSES.txt"],
    ),
}


@pytest.mark.parametrize("name", PROJECT_IDS)
def test_a_wheel_has_its_license_its_types_and_nothing_of_the_tests(wheels, name):
    with zipfile.ZipFile(wheels[name]) as file:
        files = file.namelist()
        (license_file,) = (each for each in files if each.endswith("licenses/LICENSE"))
        text = file.read(license_file)
    package = name.replace("-", "_")

    assert text == (ROOT / "LICENSE").read_bytes()
    assert f"{package}/py.typed" in files
    assert {each.split("/")[0].partition("-")[0] for each in files} == {package}
    ours = [each for each in files if "/templates/" not in each]  # those have tests of models
    assert [each for each in ours if "test_" in each or each.endswith(".pyc")] == []


@pytest.mark.parametrize("name", PROJECT_IDS)
def test_an_index_can_show_a_wheel(wheels, name):
    said = metadata_of(wheels[name])
    urls = dict(line.split(", ") for line in said.get_all("Project-URL", []))

    licenses = (said["License-Expression"], said.get_all("License-File"))
    assert licenses == LICENSES.get(name, ("Apache-2.0", ["LICENSE"]))
    assert set(urls) == {"Documentation", "Source", "Changelog"}
    assert all(url.startswith(HOME) for url in urls.values())
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert said["Description-Content-Type"] == "text/markdown"


@pytest.mark.parametrize("name", PROJECT_IDS)
def test_every_link_of_a_readme_is_absolute_and_leads_to_a_file(wheels, name):
    said = metadata_of(wheels[name])
    links = ["".join(found) for found in LINKS.findall(said.get_payload())]
    urls = [line.split(", ")[1] for line in said.get_all("Project-URL")]

    assert [link for link in links if not link.startswith("https://")] == []
    ours = [link.split("#")[0] for link in [*links, *urls] if link.startswith(f"{HOME}/")]
    paths = [re.sub(r"^(?:blob|tree)/main/", "", link.removeprefix(f"{HOME}/")) for link in ours]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_typed_service_passes_a_strict_type_checker(wheels, tmp_path):
    python = installed(wheels, tmp_path / "venv")
    (tmp_path / "service.py").write_text(SERVICE)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "service.py"),
            *("--python-executable", str(python), "--cache-dir", str(tmp_path / "cache")),
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert (done.stdout, done.returncode) == ("Success: no issues found in 1 source file\n", 0)


@pytest.mark.e2e
@pytest.mark.parametrize("version", PYTHONS)
def test_wheels_serve_a_model_outside_the_checkout(wheels, tmp_path, version):
    if version == RUNNING:
        python = installed(wheels, tmp_path / "venv")
    else:
        python = installed_from_index(wheels, tmp_path / "venv", version)
    archiver = [str(python), "-I", "-m", "servekit_archiver.cli"]
    for command in ([*archiver, "init", "hello"], [*archiver, "build", "hello"]):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    done = subprocess.run(
        [str(python), "-I", "-c", SERVED],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answer, *files = done.stdout.splitlines()

    assert answer == '{"prediction":{"greeting":"Hello, Ada!"}}'
    assert [file for file in files if not file.startswith(str(tmp_path))] == []


def installed(wheels: dict[str, Path], place: Path) -> Path:
    """Return the interpreter of an environment with *wheels*, and the packages of this one."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120
    )
    site = place / f"lib/python{RUNNING}/site-packages"
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as file:
            file.extractall(site)
    # the .pth files in there are not read, so this checkout is not found by them
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin/python"


def installed_from_index(wheels: dict[str, Path], place: Path, version: str) -> Path:
    """Return the interpreter of an environment with *wheels* and what they need, from the index."""
    base = interpreter(version)
    if base is None:
        pytest.skip(f"there is no python{version} here")
    if not os.environ.get("WHEEL_TESTS"):
        pytest.skip(f"python{version} would fetch packages from the index; `make wheels` lets it")
    subprocess.run([base, "-m", "venv", str(place)], check=True, timeout=120)
    names = ("servekit", "servekit-archiver", "servekit-client")
    pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *(str(wheels[name]) for name in names)], check=True, timeout=600)
    return place / "bin/python"


def interpreter(version: str) -> str | None:
    """Return a Python of *version* on the path or of pyenv, whose shims may lead nowhere."""
    found = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [found] if found else []
    candidates += map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}")))
    return next((each for each in candidates if is_usable(each)), None)


def is_usable(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
