# SPDX-License-Identifier: Apache-2.0
"""The page on Kubernetes says what is written."""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from servekit_kubernetes.arguments import add_render
from servekit_kubernetes.helm import helm_files
from servekit_kubernetes.kserve import kserve_files
from servekit_kubernetes.kustomize import kustomize_files
from servekit_kubernetes.scaling import BUSY, QUEUE_TIME

from .helm_release import api_server, kubeconfig
from .kustomization import build, kubectl
from .samples import DASHBOARDS, PLAN, plan, write
from .schemas import hold

PAGE = (Path(__file__).parents[3] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BLOCKS = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.strip()
    for kind, text in BLOCKS
    if kind == "sh"
    for line in text.replace("\\\n", " ").splitlines()
]
FILES = kustomize_files(PLAN, DASHBOARDS) | helm_files(PLAN, DASHBOARDS) | kserve_files(PLAN)
VALUES = yaml.safe_load(FILES["chart/values.yaml"])


def first_column(heading):
    """Return the names in the first column of the table that begins with *heading*."""
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)))


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("servekit kube")])
def test_every_command_has_arguments_that_exist(line):
    parser = argparse.ArgumentParser()
    add_render(parser)

    assert parser.parse_args(shlex.split(line)[2:]).output == Path("k8s")


@pytest.mark.parametrize(
    "line", [line for line in COMMANDS if line.startswith(("kubectl", "helm"))]
)
def test_every_command_applies_what_is_written(line):
    (path,) = re.findall(r"k8s/([\w./-]+)", line)
    written = {path, f"{path}/kustomization.yaml", f"{path}/Chart.yaml"} & FILES.keys()
    settings = re.findall(r"--set ([\w.]+)=", line)

    assert written
    for setting in settings:
        first, _, rest = setting.partition(".")
        assert first in VALUES
        assert not rest or rest in VALUES[first] or first == "env"


def test_the_tables_name_the_folders_the_examples_and_the_values():
    folders = {path.partition("/")[0] for path in FILES} - {"kserve"}
    examples = {Path(path).name for path in FILES if path.startswith("kserve/examples/")}
    documented = {name.partition(".")[0] for name in first_column("value")}

    assert {name.partition("/")[0] for name in first_column("in `DIR`")} == folders | {"image"}
    assert set(first_column("in `kserve/examples/`")) == examples
    assert documented == VALUES.keys()


def test_the_queries_are_those_of_the_autoscalers():
    queries = [text.strip() for kind, text in BLOCKS if not kind]

    for signal, text in zip((QUEUE_TIME, BUSY), queries, strict=True):
        expected = signal.text.replace("{MATCH}", "").replace("MATCH,", "").replace("BY", "pod")
        assert text == expected


def test_the_example_of_kserve_keeps_its_schema():
    (text,) = [text for kind, text in BLOCKS if kind == "yaml" and "InferenceService" in text]

    hold(yaml.safe_load(text))


def test_a_change_to_an_autoscaler_takes_the_number_of_pods_out_of_what_kubectl_remembers(tmp_path):
    (command,) = [line for line in COMMANDS if "edit-last-applied" in line]
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl")
    write(tmp_path, kustomize_files(plan(namespace="default"), DASHBOARDS))
    live = build(tmp_path / "base")["Deployment", "digits"]
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(live)}
    with api_server(live) as (url, sent):
        place = os.environ | {"KUBECONFIG": str(kubeconfig(url, tmp_path)), "HOME": str(tmp_path)}
        subprocess.run(
            f"{command} --validate=false", shell=True, env=place, timeout=60, check=True
        )  # the server has no schemas
    (change,) = sent
    remembered = json.loads(change["metadata"]["annotations"][LAST_APPLIED])["spec"]

    assert remembered == {key: each for key, each in live["spec"].items() if key != "replicas"}


def test_a_kustomization_of_your_own_changes_what_it_says(tmp_path):
    (text,) = [text for kind, text in BLOCKS if kind == "yaml" and "kustomization" in text]
    write(tmp_path, {f"k8s/{path}": text for path, text in FILES.items()})
    write(tmp_path, {"kustomization.yaml": text})
    if not (built := kubectl("kustomize", tmp_path)):
        pytest.skip("no kubectl")
    resources = {each["kind"]: each for each in yaml.safe_load_all(built)}
    pod = resources["Deployment"]["spec"]["template"]["spec"]

    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "servekit-tokens"}}]
    assert "runAsUser" not in pod["securityContext"]
    assert resources["ServiceMonitor"]["metadata"]["labels"]["release"] == "kube-prometheus-stack"
