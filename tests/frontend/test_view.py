# SPDX-License-Identifier: Apache-2.0
"""The models as plugins see them."""

import json
from types import SimpleNamespace

import pytest
from servekit_kserve_v1.protocol import KServeV1
from servekit_oip.protocol import OpenInference

from servekit.errors import ModelNotFound
from servekit.extension import RequestHead
from servekit.frontend.server.model_views import models_of
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
    protocol = KServeV1(SimpleNamespace(models=models, why_not_ready=lambda _model, _version: []))
    response = protocol.find(RequestHead(b"GET", path.encode(), b"", {}))

    said = json.loads(response.body)["model_version_status"]
    assert [each["version"] for each in said] == versions


def only(version):
    """Return the part of a server whose only version that answers is *version*."""
    return lambda _model, asked: [] if asked == version else ["no replica answers"]


@pytest.mark.parametrize(("good", "status"), [("2", [200, 200, 503]), ("1", [503, 503, 200])])
@pytest.mark.parametrize("path", ["/v1/models/m", "/v2/models/m"])
def test_clients_are_told_whether_a_version_is_ready(models, good, status, path):
    server = SimpleNamespace(models=models, why_not_ready=only(good))
    protocol = (KServeV1 if path.startswith("/v1") else OpenInference)(server)
    end = "" if path.startswith("/v1") else "/ready"
    paths = [f"{path}{end}", f"{path}/versions/2{end}", f"{path}/versions/1{end}"]
    found = [protocol.find(RequestHead(b"GET", each.encode(), b"", {})) for each in paths]

    assert [each.status for each in found] == status


def test_kserve_clients_are_told_the_state_of_each_version(models):
    protocol = KServeV1(SimpleNamespace(models=models, why_not_ready=only("2")))
    said = json.loads(protocol.find(RequestHead(b"GET", b"/v1/models/m", b"", {})).body)

    found = {each["version"]: each["state"] for each in said["model_version_status"]}
    assert found == {"2": "AVAILABLE", "1": "LOADING"}


def test_kserve_clients_are_told_what_is_not_loaded(models):
    protocol = KServeV1(SimpleNamespace(models=models, why_not_ready=lambda _model, _version: []))

    found = protocol.find(RequestHead(b"GET", b"/v1/models/m/versions/gone", b"", {}))
    assert isinstance(found, ModelNotFound)
