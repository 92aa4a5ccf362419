# SPDX-License-Identifier: Apache-2.0
"""An asset comes into the cache once, whole, or not at all."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from servekit_archiver import Asset

from servekit.assets import http
from servekit.assets.cache import asset_path, is_cached
from servekit.assets.fetchers import fetch_file
from servekit.assets.fetching import fetch_asset
from servekit.errors import AssetError

CONTENT = bytes(range(256)) * 4000
OTHER = b"x" * len(CONTENT)
MOVED = {
    "/moved": "/ranges",
    "/moved-to-ftp": "ftp://127.0.0.1:1/w.bin",
    "/moved-to-file": "file:///etc/passwd",
}


class Store(BaseHTTPRequestHandler):
    """Serves ``CONTENT``: ``/ranges`` from any byte on, ``/whole`` never, ``/cut`` in part."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.headers.get("Range", ""))
        if self.path in MOVED:
            self.send_response(302)
            self.send_header("Location", MOVED[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/gone":
            self.send_error(410, "Gone")
        else:
            self.send_content()

    def send_content(self):
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        if self.path != "/ranges":
            start = 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = start + 300_000 if self.path == "/cut" else len(CONTENT)
        self.wfile.write(CONTENT[start:end])
        self.close_connection = True

    def log_message(self, *arguments):
        """Say nothing."""


@pytest.fixture
def store():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    server.server_close()
    thread.join(60)


def an_asset(url="http://127.0.0.1:1/w.bin", content=CONTENT, **keys):
    return Asset(url=url, sha256=hashlib.sha256(content).hexdigest(), **keys)


def nowhere(url, start):
    raise AssertionError(f"{url} is fetched")


def ignore(done, total):
    """Show nothing."""


def left_in(cache):
    return sorted(path.name for path in cache.rglob("*") if path.suffix != ".lock")


@pytest.mark.parametrize("path", ["/ranges", "/whole", "/moved"])
def test_it_is_fetched_once_and_read_only(store, tmp_path, path):
    asset, steps = an_asset(store.url + path, size=len(CONTENT), file="w.bin"), []
    found = fetch_asset(asset, tmp_path, http.fetch, lambda *step: steps.append(step))
    again = fetch_asset(asset, tmp_path, nowhere, ignore)

    assert found == again == tmp_path / "assets" / asset.sha256 / "w.bin"
    assert (found.read_bytes(), found.stat().st_mode & 0o777) == (CONTENT, 0o444)
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert left_in(tmp_path) == sorted([asset.sha256, "assets", "w.bin"])


def test_what_was_cut_off_goes_on_from_there(store, tmp_path):
    asset = an_asset(f"{store.url}/cut")
    with pytest.raises(AssetError, match="/cut: the connection ended 724000 bytes too early"):
        fetch_asset(asset, tmp_path, http.fetch, ignore)
    other = an_asset(f"{store.url}/ranges")
    found = fetch_asset(other, tmp_path, http.fetch, ignore)

    assert found.read_bytes() == CONTENT
    assert store.asked == ["", "bytes=300000-"]


def test_a_store_without_ranges_is_read_again_and_the_rest_is_taken(store, tmp_path):
    asset = an_asset(f"{store.url}/whole")
    part_of(asset, tmp_path).write_bytes(CONTENT[:1000])

    assert fetch_asset(asset, tmp_path, http.fetch, ignore).read_bytes() == CONTENT


def part_of(asset, cache):
    folder = cache / "assets"
    folder.mkdir(mode=0o700)
    return folder / f"{asset.sha256}.part"


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(OTHER[:1000], id="of another version"),
        pytest.param(OTHER, id="as long, and wrong"),
        pytest.param(CONTENT, id="whole, and only its name is missing"),
        pytest.param(CONTENT + b"x", id="too long"),
    ],
)
@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_whatever_an_attempt_left_the_content_is_right(store, tmp_path, left, size):
    asset = an_asset(f"{store.url}/ranges", size=size)
    part_of(asset, tmp_path).write_bytes(left)

    assert fetch_asset(asset, tmp_path, http.fetch, ignore).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "keys", "complaint"),
    [
        pytest.param("/ranges", {"content": OTHER}, "its SHA-256 is ", id="another content"),
        pytest.param("/ranges", {"size": 1000}, "is larger than its size, 1000", id="too large"),
        pytest.param("/ranges", {"size": 1 << 60}, "bytes are needed", id="no room on the disk"),
        pytest.param("/ranges", {"size": 1 << 21}, "ended after 1024000 of", id="too small"),
        pytest.param("/gone", {}, "/gone: 410 Gone", id="refused"),
        pytest.param("/moved-to-ftp", {}, "unknown url type: ftp", id="sent to ftp"),
        pytest.param("/moved-to-file", {}, "not allowed", id="sent to a file of ours"),
    ],
)
def test_what_is_not_as_announced_never_gets_a_name(store, tmp_path, path, keys, complaint):
    asset = an_asset(store.url + path, **keys)
    for _ in "ab":  # what the first attempt leaves does not deceive the second
        with pytest.raises(AssetError, match=complaint):
            fetch_asset(asset, tmp_path, http.fetch, ignore)

    assert not is_cached(asset_path(tmp_path, asset), asset)


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(AssetError, match=r"http://127.0.0.1:1/w.bin: .*refused"):
        fetch_asset(an_asset(), tmp_path, http.fetch, ignore)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path):
    asset = an_asset()
    part_of(asset, tmp_path).mkdir()

    with pytest.raises(AssetError, match=r"[.]part: Is a directory"):
        fetch_asset(asset, tmp_path, lambda url, start: iter([CONTENT]), ignore)


def test_a_file_is_copied(tmp_path):
    (tmp_path / "my weights.bin").write_bytes(CONTENT)
    asset = an_asset((tmp_path / "my weights.bin").as_uri())

    assert fetch_asset(asset, tmp_path / "c", fetch_file, ignore).read_bytes() == CONTENT


def test_two_names_of_one_content_are_fetched_once(tmp_path):
    one, two = an_asset(file="a.bin"), an_asset(file="b.bin")
    found = [
        fetch_asset(asset, tmp_path, fetcher, ignore)
        for asset, fetcher in ((one, lambda url, start: iter([CONTENT])), (two, nowhere))
    ]

    assert found[0] != found[1]
    assert found[0].samefile(found[1])


def test_two_at_once_fetch_once(tmp_path):
    asset, begun, go_on, calls = an_asset(), threading.Event(), threading.Event(), []

    def slow(url, start):
        calls.append(url)
        begun.set()
        assert go_on.wait(60), "nobody let it go on"
        yield CONTENT

    def fetch():
        fetch_asset(asset, tmp_path, slow, ignore)

    first, second = (threading.Thread(target=fetch) for _ in "ab")
    first.start()
    assert begun.wait(60), "the first did not begin"
    second.start()
    second.join(0.2)
    is_waiting = second.is_alive()
    go_on.set()
    for thread in (first, second):
        thread.join(60)

    assert (is_waiting, len(calls)) == (True, 1)
    assert asset_path(tmp_path, asset).read_bytes() == CONTENT
