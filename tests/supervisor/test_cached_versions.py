# SPDX-License-Identifier: Apache-2.0
"""The files of an old version leave the cache with its last user."""

import os
import signal

import pytest
from servekit_archiver import build_archive

from .conftest import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def archive(model, tmp_path):
    """Return what builds version *number* into one file, as ``mv`` would."""
    directory = model()

    def build(number):
        (directory / "weights").write_text(str(number))
        built = build_archive(directory, tmp_path / f"{number}.mar")
        os.replace(built, tmp_path / "digits.mar")  # noqa: PTH105
        return tmp_path / "digits.mar"

    return build


def versions(cache):
    return {path.name for path in (cache / "models").iterdir() if len(path.name) == 64}


def test_versions_that_nobody_serves_any_more_are_removed(start, archive, tmp_path):
    cache = tmp_path / "cache"
    server = start(archive(1), "--cache-dir", cache)
    server.wait_for("serving")
    for number in (2, 3, 4):
        old = versions(cache)
        archive(number)
        server.signal(signal.SIGHUP)
        server.wait_for("model_reloaded", count=number - 1)
        wait_until(lambda o=old: not versions(cache) & o, f"{old} stays")

    assert len(versions(cache)) == 1
    server.signal(signal.SIGTERM)
    assert server.wait_exit() == 0
    assert len(versions(cache)) == 1  # the next start is a warm one


def test_a_version_that_another_server_or_model_uses_stays(start, archive, tmp_path):
    cache = tmp_path / "cache"
    path = archive(1)
    first = start(path, f"copy={path}", "--cache-dir", cache)
    first.wait_for("serving")
    second = start(path, "--cache-dir", cache)
    second.wait_for("serving")
    old = versions(cache)
    archive(2)
    second.signal(signal.SIGHUP)
    second.wait_for("model_reloaded")
    wait_until(lambda: second.wait_for("model_reloaded"), "not reloaded")

    assert versions(cache) > old
    first.signal(signal.SIGHUP)
    first.wait_for("model_reloaded", count=2)
    wait_until(lambda: not versions(cache) & old, f"{old} stays")
    assert len(versions(cache)) == 1
