# SPDX-License-Identifier: Apache-2.0
"""Texts stay texts in YAML as Go reads it, which takes more for numbers than PyYAML does."""

import re

import pytest
import yaml
from servekit_kubernetes.helm import helm_files
from servekit_kubernetes.kustomize import kustomize_files
from servekit_kubernetes.yaml_text import as_yaml

from .kustomization import kubectl
from .samples import DASHBOARDS, plan, write

#: numbers and booleans of Go's YAML: decimal, with an exponent, of other bases, with underscores
GO_NUMBER = re.compile(
    r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[\da-fA-F_]+|[\d_]+|(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?)\Z"
)
GO_BOOLEAN = re.compile(r"[yYnN]\Z")
TEXTS = [
    "1e3", "1234e56", "1.5e3", "+1e3", "-1E-3", ".5e1", "1.e2", "0o17", "0b11", "0x1F",
    "-0x1f", "1_000", "y", "Y", "n", "N", "yes", "off", "true", "null", "~", "12", "1.0", "1:30",
    "2024-01-01", ".inf", "=", "<<", "", " 1e3", "1e3 ", "-", "5Gi", "#1", "{{ .Name }}",
    "a\u2028b", "a\x85b", "a\nb", "a\r\nb\n",
]  # fmt: skip


class _GoLoader(yaml.SafeLoader):
    """Reads plain scalars as Go does."""


_GoLoader.add_implicit_resolver("tag:go,number", GO_NUMBER, list("-+.0123456789"))
_GoLoader.add_implicit_resolver("tag:go,boolean", GO_BOOLEAN, list("yYnN"))
for _tag in ("number", "boolean"):
    _GoLoader.add_constructor(f"tag:go,{_tag}", lambda _, node: ("not a text", node.value))
_GoLoader.yaml_implicit_resolvers = {
    first: sorted(found, key=lambda each: not each[0].startswith("tag:go"))
    for first, found in _GoLoader.yaml_implicit_resolvers.items()
}


def as_go_reads(text):
    return yaml.load(text, Loader=_GoLoader)  # a subclass of SafeLoader


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_a_text_stays_one_as_value_and_as_key(text):
    written = as_yaml({"value": text, "list": [text], "keys": {text: "a"}})

    assert as_go_reads(written) == {"value": text, "list": [text], "keys": {text: "a"}}


def test_sizes_and_durations_need_no_quotes():
    assert as_yaml({"memory": "512Mi", "interval": "15s"}) == "memory: 512Mi\ninterval: 15s\n"


def test_kustomize_takes_a_tag_of_digits_and_a_variable_that_looks_like_a_number(tmp_path):
    short_digest = plan(tag="r/a:1234e56", name="n", namespace="1e3", env={"X": "1e3", "Y": "y"})
    write(tmp_path, kustomize_files(short_digest, DASHBOARDS))
    if not (text := kubectl("kustomize", tmp_path / "overlays/hpa")):
        pytest.skip("no kubectl")
    built = {each["kind"]: each for each in yaml.safe_load_all(text)}
    metadata = built["Deployment"]["metadata"]

    assert metadata["labels"]["app.kubernetes.io/version"] == "1234e56"
    assert (metadata["name"], metadata["namespace"]) == ("n", "1e3")


def test_the_values_of_the_chart_stay_texts():
    files = helm_files(plan(tag="r/a:1234e56", env={"X": "1e3", "Y": "y", "N": "0o17"}), DASHBOARDS)

    assert as_go_reads(files["chart/Chart.yaml"])["appVersion"] == "1234e56"
    env = as_go_reads(files["chart/values.yaml"])["env"]
    assert {"X": "1e3", "Y": "y", "N": "0o17"}.items() <= env.items()
