# SPDX-License-Identifier: Apache-2.0
"""Requests at the paths of versions that are not predictions."""

import pytest

from servekit.ipc.table import RouteRow, StageRow, StepRow, TrafficRow

from .fakes import FakeServer, model_row


@pytest.fixture(scope="module")
def client():
    size = RouteRow("/digits/size", [StepRow(stage="predict", target="size")])
    row = model_row(version="1", routes=[size])
    row.versions = [model_row(version="2", stages=[StageRow("a", 1, 0.0, 1.0)])]
    row.traffic = TrafficRow(aliases={"canary": "2", "lost": "0"})
    return FakeServer(row).client()


KNOWN = "digits has no version %s; it has 1, 2, canary (2)"
ERRORS = {
    ("POST", "/digits/versions/3/predict"): (404, KNOWN % "'3'"),
    ("POST", "/digits/versions/lost/predict"): (404, KNOWN % "'lost'"),
    ("GET", "/digits/versions/3/other"): (404, KNOWN % "'3'"),
    ("POST", "/other/versions/1/predict"): (404, "no model is called 'other'"),
    ("POST", "/digits/versions/1/other"): (404, "digits 1 has no '/other'"),
    ("POST", "/digits/versions/canary/predict"): (404, "digits canary has no '/predict'"),
    ("GET", "/digits/versions/1/predict"): (405, ...),
    ("GET", "/digits/versions/1/size"): (405, ...),
    ("POST", "/digits/versions/1/size"): (503, ...),
}


@pytest.mark.parametrize(("asked", "expected"), ERRORS.items())
def test_what_is_missing_is_named(client, asked, expected):
    method, path = asked
    response = client.open(path, method=method)
    status, detail = expected

    assert response.status_code == status
    assert detail is ... or response.json["detail"] == detail


def test_the_methods_of_a_version_are_told(client):
    response = client.options("/digits/versions/1/predict")

    assert (response.status_code, response.headers["Allow"]) == (204, "POST")
