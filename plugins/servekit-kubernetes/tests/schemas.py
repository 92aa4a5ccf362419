# SPDX-License-Identifier: Apache-2.0
"""Holds resources to their schemas: of Kubernetes, and of the operators whose resources they are.

``crds/`` has the schemas of operators, closed: a key that they do not name is an error.
"""

import json
from functools import cache
from pathlib import Path

import jsonschema
import kubernetes_validate

CRDS = Path(__file__).parent / "crds"


def hold(resource):
    """Fail unless *resource* keeps its schema, without an unknown key."""
    group = resource["apiVersion"].rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io"):
        schemas()[f"{resource['apiVersion']} {resource['kind']}"].validate(resource)
    else:
        version = kubernetes_validate.latest_version()
        kubernetes_validate.validate(resource, version, strict=True)


@cache
def schemas():
    """Return the validator of each version and kind of an operator."""
    files = [json.loads(path.read_text(encoding="utf-8")) for path in CRDS.glob("*.json")]
    return {
        kind: jsonschema.Draft202012Validator(schema | {"$defs": file["$defs"]})
        for file in files
        for kind, schema in file["properties"].items()
    }


def misspelled(resource, *path):
    """Return a copy of *resource* whose key at *path* has a letter more."""
    if len(path) == 1:
        return {f"{key}s" if key == path[0] else key: value for key, value in resource.items()}
    inner = misspelled(resource[path[0]], *path[1:])
    if isinstance(resource, list):
        return [*resource[: path[0]], inner, *resource[path[0] + 1 :]]
    return resource | {path[0]: inner}
