# SPDX-License-Identifier: Apache-2.0
"""Jobs as files that several front-ends share."""

import os

import pytest
from flask import Flask
from servekit_jobs.management import create_blueprint
from servekit_jobs.store import JobStore

from servekit.extension import HttpResponse


@pytest.fixture
def stores(tmp_path):
    """Two front-ends' views of one directory."""
    return JobStore(tmp_path, 10.0), JobStore(tmp_path, 10.0)


def test_one_front_end_finds_what_another_keeps(stores):
    ours, theirs = stores
    name = ours.add("echo", "r1")

    assert theirs.find(name) == ("echo", "r1", None)
    ours.put(
        name,
        HttpResponse(200, b"body", "text/plain", "r1", fields=[("A", "b")], model_version=b"2"),
    )
    result = theirs.find(name).result
    assert (result.status, result.body, result.media_type) == (200, b"body", "text/plain")
    assert (result.request_id, result.fields) == ("r1", [("A", "b")])
    assert result.model_version == b"2"
    theirs.remove(name)
    assert ours.find(name) is None
    ours.put(name, HttpResponse(200, b"too late"))
    assert ours.find(name) is None


def test_bounds_are_of_all_front_ends_together(stores):
    ours, theirs = stores
    name = ours.add("echo", "")
    ours.put(name, HttpResponse(200, b"x" * 100))
    theirs.scan(0.0)

    assert (theirs.count, theirs.pending) == (1, set())
    assert theirs.size > 100


def test_what_is_old_is_removed_by_whoever_sees_it_first(stores):
    ours, theirs = stores
    name, pending = ours.add("echo", ""), ours.add("echo", "")
    ours.put(name, HttpResponse(200))
    for now in (0.0, 9.9, 10.0):
        assert theirs.find(name) is not None
        theirs.scan(now)

    assert theirs.find(name) is None
    assert theirs.find(pending) is not None
    assert (theirs.count, theirs.size) == (1, 0)


def test_jobs_of_a_front_end_that_is_gone_are_told_of(stores):
    ours, theirs = stores
    name = ours.add("echo", "")

    assert theirs.scan(0.0) == []
    os.close(ours._lock)
    assert theirs.scan(1.0) == [name]


def test_operators_see_the_jobs_of_all_front_ends(stores, tmp_path):
    names = [store.add("echo", "") for store in stores]
    stores[0].put(names[0], HttpResponse(422))
    app = Flask("test")
    app.register_blueprint(create_blueprint(tmp_path))
    jobs = {job["id"]: job for job in app.test_client().get("/jobs").json["jobs"]}

    assert jobs.keys() == set(names)
    assert (jobs[names[0]]["status"], jobs[names[0]]["result_status"]) == ("failed", 422)
    assert (jobs[names[1]]["status"], jobs[names[1]]["model"]) == ("pending", "echo")


def test_there_are_no_jobs_before_the_first_one(tmp_path):
    app = Flask("test")
    app.register_blueprint(create_blueprint(tmp_path / "jobs"))

    assert app.test_client().get("/jobs").json == {"jobs": []}
