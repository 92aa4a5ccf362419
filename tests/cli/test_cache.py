# SPDX-License-Identifier: Apache-2.0
"""``servekit cache`` and ``servekit env``: what is listed, and what is left alone."""

import json
import os

import pytest
from servekit_archiver import build_archive, unpack
from servekit_archiver.cache.holding import hold

from servekit.cli import main
from servekit.environments import store

DAY_S = 86_400
FACTS = {"python": "3.11", "locked": True, "packages": [f"p{n}==1.0" for n in range(6)]}


@pytest.fixture
def cache(tmp_path):
    """A cache with an archive, an asset and an environment, used a week ago."""
    directory = tmp_path / "digits"
    directory.mkdir()
    (directory / "service.py").write_text("class Digits: ...\n")
    (directory / "model.toml").write_text('service = "service:Digits"\n')
    build_archive(directory, tmp_path / "digits.mar")
    cache = tmp_path / "cache"
    unpacked = unpack(tmp_path / "digits.mar", cache)
    asset = cache / "assets" / ("a" * 64)
    environment = cache / "environments" / ("b" * 32)
    for directory in (asset, environment):
        directory.mkdir(parents=True)
    (asset / "w.bin").write_bytes(b"12345")
    environment.with_suffix(".log").write_text("Collecting p1")
    (environment / store.FACTS_FILE).write_text(json.dumps(FACTS))
    week = asset.stat().st_mtime - 7 * DAY_S
    for path in (asset, environment / store.FACTS_FILE, unpacked.directory):
        os.utime(path, (week, week))
    os.utime(cache / "verified" / unpacked.digest, (week, week))
    return cache


@pytest.fixture
def ask(cache, capsys):
    def run(*arguments):
        assert main([*arguments, "--json", "--cache-dir", str(cache)]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def kinds(entries):
    return sorted(entry["kind"] for entry in entries)


ALL = ["asset", "environment", "model"]


def test_everything_is_listed_with_size_and_last_use(ask, cache, capsys):
    found = {entry["kind"]: entry for entry in ask("cache", "list")}

    assert sorted(found) == ALL
    assert found["model"]["name"] == "digits/1.0"
    assert (found["asset"]["name"], found["asset"]["size_bytes"]) == ("w.bin", 5)
    assert found["environment"]["packages"] == FACTS["packages"]
    assert not any(entry["is_used"] for entry in found.values())
    main(["env", "list", "--cache-dir", str(cache)])
    assert "Python 3.11: p0==1.0, p1==1.0, p2==1.0, p3==1.0, and 2 more" in capsys.readouterr().out


def test_what_is_held_is_listed_as_used_and_stays(ask, cache):
    held = [hold(path) for path in cache.glob("*/*/") if path.parent.name != "verified"]

    assert [entry["is_used"] for entry in ask("cache", "list")] == [True] * 3
    assert ask("cache", "prune") == []
    for descriptor in held:
        os.close(descriptor)
    assert kinds(ask("cache", "prune")) == ALL
    assert ask("cache", "list") == []
    assert list((cache / "environments").iterdir()) == []


def test_an_environment_that_is_being_built_stays(ask, cache):
    with store.building(cache / "environments" / ("b" * 32)):
        assert ask("env", "list")[0]["is_used"]
        assert ask("env", "prune") == []


@pytest.mark.parametrize(("days", "removed"), [("6.9", ALL), ("7.1", [])])
def test_only_what_was_not_used_for_so_long_goes(ask, days, removed):
    assert kinds(ask("cache", "prune", "--unused-for", days)) == removed


def test_a_dry_run_removes_nothing(ask):
    assert kinds(ask("cache", "prune", "--dry-run")) == ALL
    assert kinds(ask("cache", "list")) == ALL


def test_caches_of_other_users_are_listed_too(ask, cache):
    (cache / "user-7" / "assets" / ("c" * 64)).mkdir(parents=True)

    assert kinds(ask("cache", "list")) == ["asset", *ALL]


def test_one_that_was_interrupted_is_incomplete(ask, cache):
    (cache / "environments" / ("b" * 32) / store.FACTS_FILE).unlink()

    assert ask("env", "list")[0]["name"] == "incomplete"


def test_an_empty_cache_is_said_in_one_line(tmp_path, capsys):
    assert main(["cache", "list", "--cache-dir", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == "0 B in the cache\n"
