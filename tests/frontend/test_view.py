# SPDX-License-Identifier: Apache-2.0
"""The models as plugins see them."""

import json
from types import SimpleNamespace

import pytest
from servekit_kserve_v1.protocol import KServeV1

from servekit.errors import ModelNotFound
from servekit.extension import RequestHead
from servekit.frontend.server.view import models_of
from servekit.ipc.table import Table, TrafficRow

from .routed import version_row


@pytest.fixture(scope="module")
def models():
    row = version_row("2", versions=[version_row("1", 1)])
    row.traffic = TrafficRow(aliases={"stable": "1", "canary": "2", "gone": "0"})
    return models_of(Table([row]))


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "2"), ("2", "2"), ("1", "1"), ("stable", "1"), ("canary", "2"), ("gone", None)],
)
def test_versions_are_found_by_name_and_alias(models, name, version):
    found = models["m"].find_version(name)

    assert (found.version if found else None) == version


STATES = {
    "/v1/models/m": ["2", "1"],
    "/v1/models/m/versions/1": ["1"],
    "/v1/models/m/versions/canary": ["2"],
}


@pytest.mark.parametrize(("path", "versions"), STATES.items())
def test_kserve_clients_are_told_all_versions(models, path, versions):
    protocol = KServeV1(SimpleNamespace(models=models, why_not_ready=lambda _model: []))
    response = protocol.find(RequestHead(b"GET", path.encode(), b"", {}))

    said = json.loads(response.body)["model_version_status"]
    assert [each["version"] for each in said] == versions


def test_kserve_clients_are_told_what_is_not_loaded(models):
    protocol = KServeV1(SimpleNamespace(models=models, why_not_ready=lambda _model: []))

    found = protocol.find(RequestHead(b"GET", b"/v1/models/m/versions/gone", b"", {}))
    assert isinstance(found, ModelNotFound)
