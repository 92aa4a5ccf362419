# SPDX-License-Identifier: Apache-2.0
"""``servekit dockerfile``: what it writes is what the models need, and it builds and serves."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from threading import Event
from time import monotonic

import pytest
import yaml
from servekit_archiver import build_archive, open_archive
from servekit_container.context import ImageOrder, write_context
from servekit_container.needs import server_packages

from servekit.cli import main
from servekit.cli.parsing.exit_status import OK, STARTUP_FAILED, USAGE
from tests.processes import free_port

from .builder import Build

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples"
WAIT_S = 300.0
SERVER = [package.name for package in server_packages()]  #: what extends every server
WHEELS = f"building wheels of {', '.join(sorted(['servekit', 'servekit-archiver', *SERVER]))}\n"
USERS = {"groupadd": "install -d -m 0770 var/cache/servekit"}  # needs no root
WEIGHTS = b"3 1 4"
REQUESTS = {"Toy_2": [1, 0, 2], "echo-2": {"a": 1}}
ANSWERS = [11, {"a": 1}]
SERVICE = """
from servekit import Service

class Toy(Service):
    def load(self, context):
        self.weights = [int(word) for word in context.asset("weights").read_text().split()]

    def predict(self, batch):
        return [sum(w * x for w, x in zip(self.weights, item)) for item in batch]
"""
TOML = """
name = "Toy_2"
version = "2.1"
service = "service:Toy"
requirements = "requirements.txt"

[worker]
replicas = 3
load_timeout_s = 7

[assets.weights]
url = "{url}"
sha256 = "{digest}"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the model ``toy`` and an archive of it."""
    place = tmp_path_factory.mktemp("images")
    (place / "toy").mkdir()
    (place / "w.txt").write_bytes(WEIGHTS)
    (place / "toy" / "service.py").write_text(SERVICE)
    (place / "toy" / "requirements.txt").write_text("numpy >= 1.0 # any\n")
    url, digest = (place / "w.txt").as_uri(), hashlib.sha256(WEIGHTS).hexdigest()
    (place / "toy" / "model.toml").write_text(TOML.format(url=url, digest=digest))
    build_archive(place / "toy", place / "toy.mar")
    return place


@pytest.fixture(scope="module")
def servekit(place):
    """Return ``servekit(*arguments)``, which runs the command in *place*."""
    own = {"SERVEKIT_CACHE_DIR": str(place / "cache"), "PIP_NO_BUILD_ISOLATION": "0"}

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "servekit.cli", "dockerfile", *map(str, arguments)],
            cwd=place, env=os.environ | own, capture_output=True, text=True, timeout=WAIT_S,
            check=False,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def context(servekit, place):
    """The build context of two models, with assets inside."""
    models = ["toy.mar", f"echo-2={EXAMPLES / 'echo'}"]
    done = servekit(
        *models, "-o", "both", "--fetch-assets", "--install", "servekit-image", "--json"
    )

    told = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert told["build"] == "docker build --tag toy-2:2.1 both"
    assert (told["name"], told["workers"], told["load_timeout_s"]) == ("toy-2", 4, 120)
    assert [model["workers"] for model in told["models"]] == [{"": 3}, {"": 1}]
    return place / "both"


def test_the_image_that_is_built_serves_heeds_its_probe_and_drains(context, tmp_path):
    build = Build(context, tmp_path, short_cuts())

    assert serve_and_stop(build, REQUESTS) == ANSWERS


@pytest.mark.timeout(600)
@pytest.mark.skipif(
    not os.environ.get("IMAGE_TESTS"), reason="installs from the index: make images"
)
def test_every_package_comes_from_the_index_or_the_context(context, tmp_path):
    assert serve_and_stop(Build(context, tmp_path, USERS), REQUESTS) == ANSWERS


def test_one_image_serves_whatever_is_mounted(place, tmp_path, monkeypatch):
    """Only the plugins of every server are in it here: wheels of all would take minutes."""
    monkeypatch.setattr("servekit_container.context.every_package", server_packages)
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    order = ImageOrder(models=(), base="python:3.12-slim", cache=place / "cache")
    write_context(order, tmp_path / "context", tell=print)
    build = Build(tmp_path / "context", tmp_path / "image", short_cuts())
    (build.root / "tmp/mounted").mkdir()  # a place that the stand-in for the image has
    build_archive(EXAMPLES / "echo", build.root / "tmp/mounted/echo.mar")
    given = build.environment["SERVEKIT_MODELS"]
    build.environment["SERVEKIT_MODELS"] = given.replace("/mnt/models", "/tmp/mounted")

    assert serve_and_stop(build, {"model": {"a": 1}}) == [{"a": 1}]


def short_cuts():
    """Return what stands in for steps that need root, or a minute: all but our wheels is linked."""
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    pip = (
        f"{sys.executable} -m pip --python opt/servekit/bin/python install -q --no-deps --no-index"
    )
    return {
        **USERS,
        "python3 -m venv": f"{sys.executable} -m venv --without-pip opt/servekit",
        "/opt/servekit/bin/pip install": f"{pip} tmp/wheels/*.whl;"
        f" echo {ours} > $(echo opt/servekit/lib/python3.*/site-packages)/others.pth",
    }


def serve_and_stop(build, requests):
    """Return the answers of the image to *requests*, an input for each model."""
    port = str(free_port())
    path = build.inside(build.environment["PATH"]).replace("$PATH", os.environ["PATH"])
    inside = {name: build.inside(text) for name, text in build.environment.items()}
    server = subprocess.Popen(
        [build.inside(word) for word in build.command],
        cwd=build.inside(build.words["WORKDIR"]),
        env=inside | {"PATH": path, "HOME": str(build.root / "tmp"), "SERVEKIT_PORT": port},
        start_new_session=True,
    )
    try:
        wait_healthy([word.replace("8080", port) for word in build.probe], path, server)
        answers = [predict(port, model, value) for model, value in requests.items()]
        server.send_signal(getattr(signal, build.words["STOPSIGNAL"]))
        status = server.wait(WAIT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
    gone = subprocess.run([word.replace("8080", port) for word in build.probe], check=False,
                          stderr=subprocess.DEVNULL)  # fmt: skip

    assert (status, gone.returncode) == (0, 1)
    return answers


def wait_healthy(probe, path, server):
    deadline = monotonic() + WAIT_S
    environment = {"PATH": path, "http_proxy": "http://127.0.0.1:1"}
    while subprocess.run(probe, env=environment, stderr=subprocess.DEVNULL, check=False).returncode:
        assert server.poll() is None, "the server has ended"
        assert monotonic() < deadline, "the probe never finds it healthy"
        Event().wait(0.05)


def predict(port, model, value):
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/{model}/predict",
        json.dumps(value).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
        return json.load(answer)["prediction"]


def test_packages_are_those_of_this_machine_and_models_have_the_last_word(context):
    lines = (context / "requirements.txt").read_text().splitlines()
    wheels = sorted(path.name.partition("-")[0] for path in (context / "wheels").iterdir())

    assert {"servekit==0.1.0", "servekit-image==0.1.0"} <= set(lines)
    assert {"servekit-docs==0.1.0", "servekit-jobs==0.1.0"} <= set(lines)
    assert any(line.startswith("pillow==") for line in lines)
    assert not any(line.startswith("numpy") for line in lines)  # the model decides
    ours = ["servekit", "servekit-archiver", "servekit-image", *SERVER]
    assert wheels == sorted(name.replace("-", "_") for name in ours)


def test_archives_are_whole_and_the_image_says_their_digests(context):
    recipe = (context / "Dockerfile").read_text()
    with open_archive(context / "models" / "Toy_2.mar") as archive:
        archive.verify()

        assert f"Toy_2/2.1@{archive.digest}" in recipe
    assert '"echo-2=/srv/models/echo-2"' in recipe
    assert "ARG BASE=python:3.1" in recipe


def test_compose_runs_it_without_rights_and_gives_it_time_to_drain(context):
    services = yaml.safe_load((context / "compose.yaml").read_text())["services"]
    monitoring = context / "monitoring"
    scraped = yaml.safe_load((monitoring / "prometheus.yml").read_text())["scrape_configs"]
    server = services["servekit"]

    assert (server["read_only"], server["cap_drop"], server["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert (server["image"], server["stop_grace_period"]) == ("toy-2:2.1", "35s")
    assert server["ports"] == ["127.0.0.1:8080:8080"]
    assert scraped[0]["static_configs"] == [{"targets": ["servekit:8080"]}]
    assert set(services) == {"servekit", "prometheus", "grafana"}
    mounts = [*services["prometheus"]["volumes"], *services["grafana"]["volumes"]]
    assert all((context / mount.split(":")[0]).exists() for mount in mounts)
    assert len(list((monitoring / "dashboards").iterdir())) == 3


@pytest.fixture(scope="module")
def outside(servekit, place):
    """The build context of the model, with assets that are fetched at the start."""
    done = servekit("toy", "-o", "outside")

    assert (done.returncode, done.stderr) == (0, WHEELS)
    assert " --read-only --tmpfs /tmp " in done.stdout
    assert " -v toy-2-cache:/var/cache/servekit toy-2:2.1\n" in done.stdout
    return place / "outside"


def test_assets_that_are_not_inside_are_fetched_into_a_volume_at_the_start(outside):
    context = outside
    composed = yaml.safe_load((context / "compose.yaml").read_text())

    assert "SERVEKIT_FETCH_ASSETS=true" in (context / "Dockerfile").read_text()
    assert "servekit assets" not in (context / "Dockerfile").read_text()
    assert composed["services"]["servekit"]["volumes"] == ["cache:/var/cache/servekit"]
    assert composed["volumes"] == {"cache": {}}


@pytest.fixture
def say(capsys, monkeypatch, place):
    """Return ``say(*arguments)``: status, and what was said."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("SERVEKIT_CACHE_DIR", str(place / "cache"))

    def run(*arguments):
        try:
            status = main(["dockerfile", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["nowhere.mar", "-o", "x"], STARTUP_FAILED, "models: nowhere.mar: no such file"),
        (["toy", "toy.mar", "-o", "x"], STARTUP_FAILED, "Toy_2 is there twice; name one NAME=PATH"),
        (["toy", "-o", "toy"], STARTUP_FAILED, "toy: is not an empty directory (--force writes"),
        (["toy", "-o", "w.txt"], STARTUP_FAILED, "w.txt: is not a directory"),
        (["toy", "-o", "w.txt", "-f"], STARTUP_FAILED, "w.txt: is not a directory"),
        (["toy", "-o", "x", "--tag", "toy"], USAGE, "'toy' is not NAME:TAG"),
        (["toy", "-o", "x", "--base", "a b"], USAGE, "'a b' is not the name of an image"),
        (["toy", "-o", "x", "--install", "-r"], USAGE, "--install: expected at least one"),
        (
            ["toy", "-o", "x", "--install", "a b"],
            STARTUP_FAILED,
            "'a b' is not a valid requirement",
        ),
        (["toy"], USAGE, "the following arguments are required: -o/--output"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(say, place, arguments, status, complaint):
    found, told = say(*arguments)

    assert (found, len(told.splitlines())) == (status, 1)
    assert complaint in told
    assert not (place / "x").exists()
    assert not list(place.glob(".*"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("service = 'nobody'", "service 'nobody': no plugin that is installed here offers it"),
        ("requirements = 'requirements.txt'", "m: requirements.txt: '-r base.txt' refers to"),
    ],
)
def test_a_model_that_no_image_can_hold_is_refused(say, tmp_path, change, complaint):
    model = tmp_path / "m"
    model.mkdir()
    (model / "requirements.txt").write_text("-r base.txt\n")
    (model / "service.py").write_text(SERVICE)
    default = "" if "service" in change else "service = 'service:Toy'\n"
    (model / "model.toml").write_text(f"name = 'm'\n{default}{change}\n")
    status, told = say(model, "-o", tmp_path / "x")

    assert (status, (tmp_path / "x").exists()) == (STARTUP_FAILED, False)
    assert complaint in told


def test_what_a_model_imports_and_does_not_require_is_said(servekit, place, tmp_path):
    model = tmp_path / "m"
    model.mkdir()
    (model / "model.toml").write_text('service = "service:S"\nrequirements = "r.txt"\n')
    (model / "service.py").write_text(f"import msgspec, yaml, no_such_module\n{SERVICE}")
    (model / "r.txt").write_text("pyyaml\n")
    done = servekit(model, "-o", tmp_path / "out", "--json")
    (lack,) = json.loads(done.stdout)["lacking"]

    assert (done.returncode, lack["module"], lack["file"]) == (OK, "no_such_module", "service.py")
    assert done.stderr == (
        f"{WHEELS}warning: m: service.py imports no_such_module, which no package of the image"
        " brings; add no-such-module to the model's requirements,"
        " or give --install no-such-module\n"
    )


def test_packages_of_folders_of_wheels_come_along(servekit, tmp_path, monkeypatch):
    """Three packages stand for some that were installed with ``--find-links``, said in any way."""
    version = {name: metadata.version(name) for name in ("msgspec", "gevent", "h2")}
    names = [
        f"msgspec-{version['msgspec']}-py3-none-any.whl",
        f"gevent-{version['gevent']}.tar.gz",
        f"h2-{version['h2']}-py3-none-any.whl",
    ]
    others = ["msgspec-0.0.1-py3-none-any.whl", "colorama-1-py3-none-any.whl", "notes.txt"]
    flag, variable, url = folders = [tmp_path / name for name in ("a folder", "b", "c")]
    for folder, name in zip(folders, names, strict=True):
        folder.mkdir()
        for each in (name, *others):
            (folder / each).write_text("content")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{variable} {url.as_uri()}")
    done = servekit("toy", "-o", tmp_path / "out", "--json", "--find-links", flag)
    found = {path.name for path in (tmp_path / "out" / "wheels").iterdir()}

    assert done.returncode == OK, done.stderr
    assert set(names) <= found
    assert not found & set(others)
    assert set(names) <= set(json.loads(done.stdout)["wheels"])
    assert "--find-links /tmp/wheels" in (tmp_path / "out" / "Dockerfile").read_text()


def test_a_folder_of_wheels_that_is_not_there_is_named(say, tmp_path):
    status, told = say("toy", "-o", tmp_path / "out", "--find-links", tmp_path / "no")

    assert (status, told) == (
        STARTUP_FAILED, f"servekit: --find-links: {tmp_path}/no is not a folder\n",
    )  # fmt: skip


def test_force_replaces_what_was_written_and_keeps_the_rest(servekit, outside):
    (outside / "models" / "old.mar").touch()
    (outside / "mine.txt").touch()
    before = (outside / "Dockerfile").read_bytes()
    done = servekit("toy", "-o", outside, "--force")

    assert (done.returncode, done.stderr) == (OK, WHEELS)
    assert (outside / "Dockerfile").read_bytes() == before
    assert (outside / "mine.txt").exists()
    assert (outside / "models" / "old.mar").exists()
