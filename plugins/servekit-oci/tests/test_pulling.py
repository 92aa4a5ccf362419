# SPDX-License-Identifier: Apache-2.0
"""Archives are pulled from a small registry, which wants tokens, redirects and lies."""

import base64
import hashlib
import json
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import pytest
from servekit_archiver import build_archive
from servekit_oci import hooks
from servekit_oci.pulling import ARCHIVE
from servekit_oci.reference import parse_reference

import servekit
from servekit.errors import StartupError

CONTENT = bytes(range(256)) * 5000
SECRET = base64.b64encode(b"operator:secret").decode()


def digest_of(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry(ThreadingHTTPServer):
    """Keeps manifests and blobs by name; notes each path with its authorization."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.manifests, self.blobs, self.asked = {}, {}, []
        self.challenge = ""  #: "Bearer", "Basic" or ""
        self.accepted = ""  #: the authorization that is let in
        self.redirects_to = ""  #: where blobs are

    @property
    def host(self):
        return f"127.0.0.1:{self.server_port}"

    def push(self, *layers, tag="2.0", media_type=ARCHIVE):
        """Keep an artifact and return the digest of its manifest."""
        rows = []
        for layer in layers:
            self.blobs[digest_of(layer)] = layer
            rows.append({"mediaType": media_type, "digest": digest_of(layer), "size": len(layer)})
        content = json.dumps({"schemaVersion": 2, "layers": rows}).encode()
        self.manifests[tag] = self.manifests[digest_of(content)] = content
        return digest_of(content)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        registry, parts = self.server, urlsplit(self.path)
        authorization = self.headers.get("Authorization", "")
        registry.asked.append((parts.path, authorization))
        if parts.path == "/token":
            scope = parse_qs(parts.query)["scope"][0]
            is_known = authorization in ("", f"Basic {SECRET}")
            token = {"token": f"of {scope}"}
            self.answer(200 if is_known else 401, json.dumps(token).encode())
        elif registry.challenge and authorization != registry.accepted:
            realm = f'realm="http://{registry.host}/token",service="registry"'
            self.answer(401, b"", {"WWW-Authenticate": f"{registry.challenge} {realm}"})
        elif parts.path.startswith("/v2/models/digits/manifests/"):
            self.find(registry.manifests, parts.path)
        elif registry.redirects_to:
            location = f"http://{registry.redirects_to}{parts.path}"
            self.answer(307, b"", {"Location": location})
        else:
            self.find(registry.blobs, parts.path)

    def find(self, kept, path):
        content = kept.get(path.rpartition("/")[2])
        self.answer(404 if content is None else 200, content or b"")

    def answer(self, status, content, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def make_registry(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    running = []

    def make():
        running.append(registry := Registry())
        Thread(target=registry.serve_forever, args=(0.01,)).start()
        return registry

    yield make
    for registry in running:
        registry.shutdown()
        registry.server_close()


@pytest.fixture
def registry(make_registry):
    return make_registry()


@pytest.fixture
def pull(registry, tmp_path):
    def pull_from_registry(rest=":2.0"):
        url = f"oci://{registry.host}/models/digits{rest}"
        return hooks.open_archive(url, tmp_path, lambda done, total: None).read_bytes()

    return pull_from_registry


def test_an_archive_is_pulled_by_tag_and_by_digest(registry, pull):
    digest = registry.push(CONTENT)

    assert pull() == CONTENT
    assert pull(f"@{digest}") == CONTENT
    assert pull(f":other@{digest}") == CONTENT


def test_progress_is_reported(registry, tmp_path):
    registry.push(CONTENT, tag="latest")
    seen, url = [], f"oci://{registry.host}/models/digits"
    hooks.open_archive(url, tmp_path, lambda done, total: seen.append((done, total)))

    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_the_only_layer_is_the_archive_whatever_its_type(registry, pull):
    registry.push(CONTENT, media_type="application/octet-stream")

    assert pull() == CONTENT


def test_an_anonymous_token_is_asked_for(registry, pull):
    registry.push(CONTENT)
    registry.challenge, registry.accepted = "Bearer", "Bearer of repository:models/digits:pull"

    assert pull() == CONTENT
    assert ("/token", "") in registry.asked


@pytest.mark.parametrize("challenge", ["Basic", "Bearer"])
def test_credentials_of_docker_login_are_used(registry, pull, tmp_path, challenge):
    registry.push(CONTENT)
    accepted = {"Basic": f"Basic {SECRET}", "Bearer": "Bearer of repository:models/digits:pull"}
    registry.challenge, registry.accepted = challenge, accepted[challenge]
    config = {"auths": {registry.host: {"auth": SECRET}}}
    (tmp_path / "config.json").write_text(json.dumps(config))

    assert pull() == CONTENT
    assert any(authorization == f"Basic {SECRET}" for _, authorization in registry.asked)


def test_a_token_is_not_sent_to_where_the_registry_redirects(registry, make_registry, pull):
    other = make_registry()
    registry.push(CONTENT)
    other.blobs = registry.blobs
    registry.challenge, registry.accepted = "Bearer", "Bearer of repository:models/digits:pull"
    registry.redirects_to = f"localhost:{other.server_port}"

    assert pull() == CONTENT
    assert [authorization for _, authorization in other.asked] == [""]


def test_another_archive_than_the_manifest_names_is_refused(registry, pull):
    registry.push(CONTENT)
    for wrong, complaint in (
        (CONTENT[:-1] + b"x", "the digest of the archive is sha256:"),
        (CONTENT[:-1], f"its size is not {len(CONTENT)} bytes"),
        (CONTENT + b"x", f"its size is not {len(CONTENT)} bytes"),
    ):
        registry.blobs[digest_of(CONTENT)] = wrong
        with pytest.raises(StartupError, match=complaint):
            pull()


def test_another_manifest_than_the_url_names_is_refused(registry, pull):
    digest = registry.push(CONTENT)
    registry.manifests[digest] = registry.manifests["2.0"] + b" "

    with pytest.raises(StartupError, match="the digest of the manifest is sha256:"):
        pull(f"@{digest}")


def test_what_cannot_be_pulled_is_named(registry, pull):
    registry.push(CONTENT, b"two")
    registry.manifests["index"] = b'{"schemaVersion": 2, "manifests": []}'
    registry.manifests["malformed"] = b"<html>"
    for rest, complaint in (
        (":2.0", "has 2 layers that may be the archive"),
        (":index", "has 0 layers that may be the archive"),
        (":malformed", "its manifest is malformed"),
        (":missing", f"{registry.host} answers 404"),
    ):
        with pytest.raises(StartupError, match=complaint):
            pull(rest)


def test_a_registry_that_wants_credentials_we_do_not_have_is_named(registry, pull):
    registry.challenge, registry.accepted = "Basic", f"Basic {SECRET}"

    with pytest.raises(StartupError, match=f"{registry.host} wants credentials"):
        pull()


@pytest.mark.parametrize("rest", ["", "digits@sha256:12", "DIGITS:1", "digits:1/..", "../digits"])
def test_malformed_urls_are_refused(tmp_path, rest):
    with pytest.raises(StartupError, match="is not oci://REGISTRY"):
        hooks.open_archive(f"oci://registry.example/{rest}", tmp_path, lambda done, total: None)


@pytest.mark.e2e
def test_a_server_serves_an_archive_of_a_registry(registry, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.toml").write_text('name = "one"\nservice = "service:One"\n')
    (source / "service.py").write_text(
        "from servekit import Service\n\n\nclass One(Service):\n"
        "    def predict(self, batch):\n        return batch\n"
    )
    archive = build_archive(source, tmp_path / "one.mar")
    digest = registry.push(archive.path.read_bytes())
    url = f"oci://{registry.host}/models/digits:2.0@{digest}"
    with servekit.serve({"one": url}, block=False, port=0) as server:
        request = Request(f"{server.url}/one/predict", b"[1]", {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as response:
            assert json.load(response)["prediction"] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz", id="no chunk"),
    ],
)
def test_what_is_not_http_is_an_error_of_the_registry(tmp_path, answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(OSError, match=f"{host} sends a malformed response"):
            hooks.open_archive(f"oci://{host}/models/digits:1", tmp_path, lambda done, total: None)
        thread.join()


def test_other_urls_are_left_to_other_plugins(tmp_path):
    assert hooks.open_archive("s3://models/a.mar", tmp_path, lambda done, total: None) is None


def test_only_registries_of_this_machine_are_reached_without_tls():
    assert parse_reference("oci://registry.example/a").base == "https://registry.example/v2/a"
    assert parse_reference("oci://localhost:5000/a").base == "http://localhost:5000/v2/a"
