# SPDX-License-Identifier: Apache-2.0
import json
from importlib.resources import files

import pytest
from servekit_archiver import open_archive
from servekit_archiver.manifest.schema import manifest_schema


def test_the_published_schema_is_the_one_that_is_checked():
    published = (files("servekit_archiver") / "manifest.schema.json").read_text()

    assert json.loads(published) == manifest_schema(), (
        "run: python -m servekit_archiver.manifest.schema"
        " > archiver/servekit_archiver/manifest.schema.json"
    )


def test_every_key_is_described():
    def undescribed(schema, path):
        for name, inner in schema.get("properties", {}).items():
            if not inner.get("description"):
                yield f"{path}.{name}"
            yield from undescribed(inner, f"{path}.{name}")

    assert list(undescribed(manifest_schema(), "")) == []


@pytest.mark.parametrize(
    ("keys", "valid"),
    [
        ({}, True),
        ({"name": "a..b"}, False),
        ({"nmae": "m"}, False),
        ({"batching": {"max_batch_size": 0}}, False),
        ({"signature": {"inputs": [{"name": "x", "dtype": "int8", "shape": [-1]}]}}, True),
        ({"signature": {"inputs": [{"name": "x", "dtype": "int8", "shape": [0]}]}}, False),
        ({"files": {"a": {"size": 1, "sha256": "A"}}}, False),
    ],
)
def test_the_schema_judges_as_the_archiver_does(archive, keys, valid):
    validator = pytest.importorskip("jsonschema").Draft202012Validator(manifest_schema())
    with open_archive(archive) as opened:
        table = opened.manifest.to_mapping() | keys

    assert validator.is_valid(table) is valid
