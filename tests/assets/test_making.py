# SPDX-License-Identifier: Apache-2.0
"""What a service makes comes into the cache once, whole and as it was agreed, or not at all."""

import hashlib
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servekit_archiver import Asset, Manifest

from servekit.assets.cache import asset_path
from servekit.assets.content import read_content
from servekit.assets.making import Maker, make_assets
from servekit.assets.requiring import fetch_missing
from servekit.errors import AssetError

TREE = {"config.json": b"{}", "shards/a.bin": b"one", "shards/b.bin": b"two"}
BY_HAND = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"


def write(directory, files):
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def digest_of(files):
    lines = (f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


MADE = digest_of(TREE)


@pytest.fixture
def making(tmp_path):
    """Return ``making(store, sha256)``: the folder ``weights`` made by *store* into a cache."""

    def make(store, sha256=MADE, **options):
        maker = Maker(tmp_path / "model", store)
        return make_assets({"weights": Asset(sha256=sha256)}, tmp_path / "cache", maker, **options)

    (tmp_path / "model").mkdir()
    return make


def a_tree(directory):
    write(directory / "weights", TREE)


def left_in(cache):
    found = (path.relative_to(cache / "assets") for path in cache.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.suffix != ".lock")


def test_a_folder_is_made_once_and_read_only(making, tmp_path):
    calls = []
    for _ in "ab":
        making(lambda into: calls.append(a_tree(into)))
    files = list((tmp_path / "cache").rglob("*.bin"))

    assert left_in(tmp_path / "cache") == [f"{MADE}/asset/{name}" for name in sorted(TREE)]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o444}
    assert len(calls) == 1


def test_what_coreutils_say_of_a_folder_is_its_digest(tmp_path):
    write(tmp_path, TREE | {"Z": b"", "a b/ä": b"x"})
    said = subprocess.run(
        BY_HAND, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout

    assert said.split()[0] == read_content(tmp_path).sha256


def test_the_folder_of_the_guide_has_the_digest_that_the_guide_shows(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "writing-a-service.md").read_text()
    (source,) = re.findall(r"^```python\n([^`]*store_assets[^`]*)^```", guide, re.MULTILINE)
    (shown,) = re.findall(r'^\[assets.words\]\nsha256 = "(.*?)"', guide, re.MULTILINE)
    names = {"__name__": "shown"}
    exec(source, names)
    names["Speller"]().store_assets(tmp_path)

    assert read_content(tmp_path / "words").sha256 == shown
    assert BY_HAND in guide


def test_root_makes_nothing_for_workers_of_another_user(tmp_path):
    manifest = Manifest(name="m", service="a:B", assets={"w": Asset(sha256=MADE)})
    with pytest.raises(AssetError, match="store_assets does not run as root"):
        fetch_missing(manifest, tmp_path, str, None)


@settings(max_examples=20)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,3}", fullmatch=True), st.binary(), min_size=1))
def test_the_digest_of_a_folder_is_that_of_names_and_contents(tmp_path_factory, files):
    directory = tmp_path_factory.mktemp("tree")
    write(directory, files)
    content = read_content(directory)

    assert (content.sha256, content.size) == (digest_of(files), sum(map(len, files.values())))


def test_notes_of_a_library_are_no_part_of_it(making, tmp_path):
    def store(into):
        a_tree(into)
        write(into / "weights", {".cache/hub/etag": os.urandom(8), "shards/.lock": b""})

    making(store)

    assert len(left_in(tmp_path / "cache")) == len(TREE)


def test_an_attempt_that_failed_is_found_again_by_the_next(making, tmp_path):
    def fail(into):
        write(into / "weights", {"config.json": b"{}"})
        raise AssetError("store_assets: no network")

    def go_on(into):
        assert (into / "weights" / "config.json").exists()
        a_tree(into)

    with pytest.raises(AssetError, match="no network"):
        making(fail)
    making(go_on)

    assert len(left_in(tmp_path / "cache")) == len(TREE)


def test_what_other_code_left_is_no_start(making, tmp_path):
    def fail(into):
        write(into / "weights", {"old": b"of an older version"})
        raise AssetError("failed")

    with pytest.raises(AssetError):
        making(fail)
    (tmp_path / "model" / "service.py").write_text("# another version")
    making(a_tree)

    assert (tmp_path / "cache" / "assets" / MADE / "asset" / "config.json").exists()


def test_a_damaged_attempt_is_begun_anew(making, tmp_path):
    def fail(into):
        write(into / "weights", {"damaged": b"x"})
        raise AssetError("failed")

    with pytest.raises(AssetError):
        making(fail)
    making(a_tree)

    assert len(left_in(tmp_path / "cache")) == len(TREE)


def test_other_content_is_refused_with_both_digests(making, tmp_path):
    wanted = digest_of({"a": b""})
    for _ in "ab":
        with pytest.raises(AssetError) as caught:
            making(a_tree, wanted)

        assert str(caught.value) == (
            f"weights: store_assets made {MADE} (3 files), expected {wanted}"
        )
    assert left_in(tmp_path / "cache") == []


def test_a_first_time_takes_what_comes_out(making, tmp_path):
    made = making(a_tree, "0" * 64, is_new=True)

    assert made == {"weights": MADE}
    assert len(left_in(tmp_path / "cache")) == len(TREE)


@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        pytest.param(lambda into: None, "weights is not there; it writes", id="nothing"),
        pytest.param(lambda into: (into / "weights").mkdir(), "a folder without files", id="empty"),
        pytest.param(
            lambda into: (into / "weights").symlink_to("/etc"), "weights is a link", id="link"
        ),
        pytest.param(
            lambda into: (a_tree(into), (into / "weights/l").symlink_to("config.json")),
            "weights: 'l' is a link", id="link within",
        ),
        pytest.param(
            lambda into: write(into / "weights", {"a\nb": b""}), "control character", id="name"
        ),
        pytest.param(
            lambda into: (a_tree(into), os.mkfifo(into / "weights/p")),
            "'p' is not a regular file", id="pipe",
        ),
    ],
)  # fmt: skip
def test_what_is_no_file_or_folder_of_files_is_refused(making, tmp_path, store, complaint):
    with pytest.raises(AssetError, match=complaint):
        making(store)

    assert not asset_path(tmp_path / "cache", Asset(sha256=MADE)).exists()


def test_two_at_once_make_it_once(making):
    begun, go_on, calls = threading.Event(), threading.Event(), []

    def slow(into):
        calls.append(into)
        begun.set()
        assert go_on.wait(60), "nobody let it go on"
        a_tree(into)

    first, second = (threading.Thread(target=making, args=(slow,)) for _ in "ab")
    first.start()
    assert begun.wait(60), "the first did not begin"
    second.start()
    go_on.set()
    for thread in (first, second):
        thread.join(60)

    assert len(calls) == 1
