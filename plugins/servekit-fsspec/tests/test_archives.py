# SPDX-License-Identifier: Apache-2.0
"""Archives are downloaded, and compared with the digest that the URL names."""

import hashlib
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import fsspec
import pytest
from servekit_fsspec import hooks
from servekit_fsspec.archives import download

from servekit.errors import StartupError

CONTENT = bytes(range(256)) * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store():
    memory = fsspec.filesystem("memory")
    memory.pipe("/models/digits.mar", CONTENT)
    yield "memory://models/digits.mar"
    memory.rm("/models", recursive=True)


@pytest.mark.parametrize("fragment", ["", f"#sha256={DIGEST}"])
def test_archive_is_downloaded_and_progress_is_reported(store, tmp_path, fragment):
    seen = []
    path = download(store + fragment, tmp_path, lambda done, total: seen.append((done, total)))

    assert path.parent == tmp_path
    assert path.read_bytes() == CONTENT
    assert seen == [(len(CONTENT), len(CONTENT))]


@pytest.mark.parametrize(
    ("fragment", "complaint"),
    [
        pytest.param(f"#sha256={'0' * 64}", f"its SHA-256 is {DIGEST}, not 000", id="another"),
        pytest.param("#sha256=abc", "64 hexadecimal digits", id="too short"),
        pytest.param("#md5=abc", "the fragment of the URL must be", id="another algorithm"),
    ],
)
def test_another_digest_is_refused(store, tmp_path, fragment, complaint):
    with pytest.raises(StartupError, match=complaint):
        download(store + fragment, tmp_path, lambda done, total: None)


def test_a_file_url_is_a_local_file(tmp_path):
    (tmp_path / "a.mar").write_bytes(CONTENT)
    (tmp_path / "scratch").mkdir()
    url = f"file://{tmp_path}/a.mar"

    path = hooks.open_archive(url, tmp_path / "scratch", lambda done, total: None)

    assert path.read_bytes() == CONTENT


def test_what_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match=r"nothing\.mar"):
        download("memory://models/nothing.mar", tmp_path, lambda done, total: None)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_what_a_server_answers_is_told_and_no_secret_of_the_url(tmp_path, status):
    pytest.importorskip("aiohttp")

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(status)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://ada:s3cret@127.0.0.1:{server.server_address[1]}/a.mar?signature=t0ken"
        with pytest.raises(OSError, match="server") as raised:
            download(url, tmp_path, lambda done, total: None)
        server.shutdown()

    assert str(raised.value) == f"the server answers {status}"


def test_a_server_that_is_not_there_is_told(tmp_path):
    pytest.importorskip("aiohttp")
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        url = f"http://ada:s3cret@127.0.0.1:{bound.getsockname()[1]}/a.mar?signature=t0ken"
        with pytest.raises(OSError, match="Connect call failed") as raised:
            download(url, tmp_path, lambda done, total: None)

    assert "s3cret" not in str(raised.value)
    assert "t0ken" not in str(raised.value)


def test_other_schemes_are_left_to_others(tmp_path):
    assert hooks.open_archive("vault://a/b", tmp_path, lambda done, total: None) is None


def test_a_store_whose_package_is_not_installed_is_named(tmp_path):
    with pytest.raises(StartupError, match="gcsfs"):
        hooks.open_archive("gs://store/a.mar", tmp_path, lambda done, total: None)
