# SPDX-License-Identifier: Apache-2.0
"""Builds a kustomization as ``kubectl kustomize`` does, as far as the rendered ones go.

It knows resources, components, the namespace, and patches that remove; all else is refused.
"""

import shutil
import subprocess

import yaml

KEYS = {"apiVersion", "kind", "namespace", "resources", "components", "patches"}


def build(folder):
    """Return the resources of the kustomization in *folder*, by kind and name."""
    resources = {}
    _accumulate(folder.resolve(), resources)
    return resources


def _accumulate(folder, resources):
    content = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert content.keys() <= KEYS, folder
    for name in (*content.get("resources", ()), *content.get("components", ())):
        path = (folder / name).resolve()
        if path.is_dir():
            _accumulate(path, resources)
            continue
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            key = each["kind"], each["metadata"]["name"]
            assert key not in resources
            resources[key] = each
    for patch in content.get("patches", ()):
        target = patch["target"]
        _patch(resources[target["kind"], target["name"]], yaml.safe_load(patch["patch"]))
    if namespace := content.get("namespace"):
        for each in resources.values():
            each["metadata"]["namespace"] = namespace


def _patch(resource, operations):
    for operation in operations:
        assert operation["op"] == "remove"
        *parents, last = operation["path"].strip("/").split("/")
        for name in parents:
            resource = resource[name]
        del resource[last]


def kubectl(*arguments):
    """Return what kubectl prints; "" if kubectl is missing or does not know components."""
    if not shutil.which("kubectl") or "kustomizeVersion" not in _run(
        "version", "--client", "-o", "json"
    ):
        return ""
    return _run(*arguments)


def _run(*arguments):
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
