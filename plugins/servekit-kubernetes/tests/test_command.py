# SPDX-License-Identifier: Apache-2.0
"""``servekit kube render``: one real rendering, and what is refused."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from servekit_kubernetes.sizing import peaks, pod_memory_mib

from servekit.cli import main
from servekit.cli.parsing.exit_status import OK, STARTUP_FAILED, USAGE

from .kustomization import build
from .samples import DASHBOARDS, IMAGE
from .schemas import hold

pytestmark = pytest.mark.slow

ECHO = Path(__file__).parents[3] / "examples" / "echo"
WAIT_S = 240.0
MIB = 2**20


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Return what was written for two models, and what the command told."""
    place = tmp_path_factory.mktemp("kube")
    done = subprocess.run(
        [sys.executable, "-m", "servekit", "kube", "render", str(ECHO), f"two={ECHO}",
         "-o", str(place / "k8s"), "--image", "registry.example/a/echo:7", "--namespace", "models",
         "--env", "SERVEKIT_GRACE=10", "--autoscale", "3:9", "--gpus", "1", "--json"],
        env=os.environ | {"SERVEKIT_CACHE_DIR": str(place / "cache")},
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    return place / "k8s", json.loads(done.stdout)


def test_what_is_told_is_what_was_written(rendered):
    directory, told = rendered
    deployment = build(directory / "base")["Deployment", "echo"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]

    assert (told["name"], told["namespace"]) == ("echo", "models")
    assert container["image"] == told["image"] == "registry.example/a/echo:7"
    assert container["resources"] == told["resources"]
    assert all((directory / path).is_file() for path in told["files"])
    assert {"base/deployment.yaml", "image/Dockerfile", "image/models/two.mar"} <= {*told["files"]}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 5 + 10 + 5
    hpa = build(directory / "overlays/hpa")["HorizontalPodAutoscaler", "echo"]["spec"]
    assert (hpa["minReplicas"], hpa["maxReplicas"]) == (3, 9)


def test_memory_is_that_of_all_workers_and_the_server(rendered):
    resources = rendered[1]["resources"]
    memory_mib = int(resources["requests"]["memory"].removesuffix("Mi"))

    assert resources["requests"]["cpu"] == "3"
    assert resources["limits"] == {"memory": f"{memory_mib}Mi", "nvidia.com/gpu": "1"}
    assert 256 + 2 * 15 < memory_mib < 1024


def test_what_is_written_keeps_the_schemas_of_kubernetes(rendered):
    for name in ("deployment", "services", "disruption-budget"):
        text = (rendered[0] / "base" / f"{name}.yaml").read_text(encoding="utf-8")
        for resource in yaml.safe_load_all(text):
            hold(resource)


def test_a_pipeline_has_the_workers_of_all_its_stages():
    stages = [
        {"stage": "a", "peak_bytes": 100 * MIB},
        {"stage": "b", "peak_bytes": 0, "loaded": {"resident_bytes": 50 * MIB}},
    ]
    found = list(peaks({"stages": stages}, {"a": 2, "b": 1}))

    assert found == [100 * MIB, 100 * MIB, 50 * MIB]
    assert pod_memory_mib(found) == 576  # 256 + 1.25 * 250, in steps of 64


GRPC = "SERVEKIT_PLUGIN_OIP_GRPC=0.0.0.0:9000"


@pytest.mark.parametrize(
    ("models", "is_kserve", "has_grpc"),
    [
        (["iris.mar", "--no-check"], False, False),
        (["iris.mar", "--no-check", "--env", GRPC], False, True),
        ([], True, True),
    ],
)
def test_without_a_model_the_platform_brings_them(
    monkeypatch, tmp_path, models, is_kserve, has_grpc
):
    """The image, which takes minutes, is a stand-in."""
    ordered = []

    def write_image(names, directory, options):
        (directory / "monitoring").mkdir(parents=True)
        (directory / "monitoring" / "kubernetes.yaml").write_text(DASHBOARDS)
        ordered.append((names, options))
        return asdict(IMAGE) | {"workers": len(names), "models": []}

    monkeypatch.setattr("servekit_kubernetes.command.write_image", write_image)
    assert main(["kube", "render", *models, "-o", str(tmp_path / "k8s")]) == OK
    grpc = ["--install", "servekit-oip[grpc]"]

    assert ordered == [(models[:1], grpc if has_grpc else [])]
    assert (tmp_path / "k8s/kserve/runtime.yaml").exists() == is_kserve
    assert (tmp_path / "k8s/base/deployment.yaml").exists() != is_kserve
    assert (tmp_path / "k8s/chart/Chart.yaml").exists() != is_kserve


@pytest.fixture
def say(capfd, monkeypatch, tmp_path):
    """Return ``say(*arguments)``: status, and what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERVEKIT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()

    def run(*arguments):
        try:
            status = main(["kube", "render", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        return status, capfd.readouterr().err

    return run


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["nowhere.mar", "-o", "x"], STARTUP_FAILED, "models: nowhere.mar: no such file"),
        ([ECHO, "-o", "full"], STARTUP_FAILED, "full: is not an empty directory (--force writes"),
        ([ECHO, "-o", "full/mine"], STARTUP_FAILED, "full/mine: is not a directory"),
        ([ECHO], USAGE, "the following arguments are required: -o/--output"),
        ([ECHO, "-o", "x", "--name", "A_b"], USAGE, "'A_b' is not 1 to 53 of a-z, 0-9 and '-'"),
        ([ECHO, "-o", "x", "--namespace", "-a"], USAGE, "expected one argument"),
        ([ECHO, "-o", "x", "--namespace", "a."], USAGE, "'a.' is not 1 to 63 of a-z, 0-9"),
        ([ECHO, "-o", "x", "--autoscale", "3:2"], USAGE, "'3:2' is not MIN:MAX, such as 2:8"),
        ([ECHO, "-o", "x", "--replicas", "0"], USAGE, "0 is below 1"),
        ([ECHO, "-o", "x", "--memory", "much"], USAGE, "'much' is not a size, such as 2GiB"),
        ([ECHO, "-o", "x", "--memory", "1"], USAGE, "'1' is below 1MiB"),
        ([ECHO, "-o", "x", "--env", "A"], USAGE, "'A' is not NAME=VALUE"),
        ([ECHO, "-o", "x", "--env", "SERVEKIT_PORT=1"], STARTUP_FAILED, "--env SERVEKIT_PORT: the"),
        ([ECHO, "-o", "x", "--env", "SERVEKIT_REPLICAS=4"], STARTUP_FAILED, "needs --cpus and"),
        (
            ["-o", "x", "--replicas", "4"],
            STARTUP_FAILED,
            "--replicas has no effect without a model",
        ),
        ([ECHO, "-o", "x", "--cpus", "two"], USAGE, "'two' is not a number of cores"),
        ([ECHO, "-o", "x", "--cpus", "0.0"], USAGE, "'0.0' is not a number of cores"),
        ([ECHO, "-o", "x", "--queue-time", "0"], USAGE, "0 is below 0.001"),
        ([ECHO, "-o", "x", "--prometheus", "prom:9090"], USAGE, "'prom:9090' is not a URL"),
        ([ECHO, "-o", "x", "--image", "a b"], STARTUP_FAILED, "--image: 'a b' is not the name"),
    ],
)
def test_what_is_refused_is_one_line_and_leaves_nothing(
    say, tmp_path, arguments, status, complaint
):
    found, told = say(*arguments)

    assert (found, len(told.splitlines())) == (status, 1)
    assert complaint in told
    assert not (tmp_path / "x").exists()
    assert not list(tmp_path.glob(".*"))
