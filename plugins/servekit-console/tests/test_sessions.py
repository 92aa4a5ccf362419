# SPDX-License-Identifier: Apache-2.0
"""The key of sessions is shared, and a full disk does not keep a front-end from starting."""

from pathlib import Path
from types import SimpleNamespace

from servekit_console.access import Sessions


def request(cookie):
    return SimpleNamespace(cookies={"servekit-console-8080": cookie}, host="localhost:8080")


def test_front_ends_share_the_key(tmp_path):
    cookie = Sessions(tmp_path / "key").seal("token")

    assert Sessions(tmp_path / "key").authorization(request(cookie)) == "Bearer token"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_full_disk_leaves_each_front_end_a_key_of_its_own(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    one, other = Sessions(tmp_path / "key"), Sessions(tmp_path / "key")
    cookie = one.seal("token")

    assert one.authorization(request(cookie)) == "Bearer token"
    assert other.authorization(request(cookie)) == ""
    assert list(tmp_path.iterdir()) == []
