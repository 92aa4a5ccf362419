# SPDX-License-Identifier: Apache-2.0
"""TLS and mutual TLS: the same connections, encrypted."""

import os
import socket
import ssl
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.errors import StartupError
from servekit.frontend.http.client_hello import ClientHello
from servekit.frontend.http.tls import TlsSocket
from servekit.ipc.batches import Slab
from servekit.settings import Settings
from servekit.settings.tls import server_context

from .certificates import Files, offering
from .conftest import WAIT_S, FrontEndUnderTest, post, receive

BODY = os.urandom(3_000_000)
NEXT = b"next" * 5_000  # more than is read after a large body without TLS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory, files):
    directory = tmp_path_factory.mktemp("run")
    front_end = FrontEndUnderTest(directory, **files.settings)
    yield front_end
    assert front_end.stop() == 0


def test_connection_is_kept_and_speaks_http(encrypted, files):
    with files.connect(encrypted) as sock:
        for body in (b"1", b"2" * 20_000):
            sock.sendall(post(body))
            assert receive(sock)[::2] == (200, body)

        assert (sock.version(), sock.selected_alpn_protocol()) == ("TLSv1.3", None)


@pytest.mark.parametrize("offered", [["x"], ["h3", "spdy/3"], ["HTTP/1.1"], ["http/1.0"]])
def test_client_that_offers_nothing_that_is_spoken_gets_an_alert(encrypted, files, offered):
    context = offering(files, *offered)
    with encrypted.connect() as sock, pytest.raises(ssl.SSLError) as caught:
        context.wrap_socket(sock, server_hostname="localhost")

    assert "NO_APPLICATION_PROTOCOL" in str(caught.value).upper().replace(" ", "_")


def test_client_that_offers_something_that_is_spoken_gets_it(encrypted, files):
    context = offering(files, "x", "http/1.1")
    with (
        encrypted.connect() as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        sock.sendall(post(b"1"))

        assert sock.selected_alpn_protocol() == "http/1.1"
        assert receive(sock)[::2] == (200, b"1")


def test_hello_is_read_however_it_is_cut(files):
    client, incoming, outgoing = offering(files, "a", "bc"), ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    record = outgoing.read()
    parts = [b"".join(record[:3] + len(p).to_bytes(2, "big") + p for p in cut(record[5:], 50))]

    for size in (1, 7, len(parts[0])):
        hello = ClientHello()
        answers = [hello.offers(piece) for piece in cut(parts[0], size)]
        assert answers == [None] * (len(answers) - 1) + [[b"a", b"bc"]]


def cut(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(st.binary(max_size=80), st.sampled_from([b"", b"\x16\x03\x01\0\x30\x01\0\0\x20"]))
def test_what_is_no_hello_offers_nothing(data, head):
    assert not ClientHello().offers(head + data)


def test_request_may_arrive_in_records_of_one_byte(encrypted, files):
    with files.connect(encrypted) as sock:
        for byte in post(b"slow"):
            sock.sendall(bytes((byte,)))

        assert receive(sock)[::2] == (200, b"slow")


def test_large_body_reaches_the_worker_in_shared_memory_and_the_next_request_is_seen(
    encrypted, files
):
    with files.connect(encrypted) as sock:
        sock.sendall(post(BODY) + post(NEXT))

        assert receive(sock)[::2] == (200, BODY)
        assert receive(sock)[::2] == (200, NEXT)
    batches = [
        encrypted.worker.batches.get(timeout=WAIT_S)
        for _ in range(encrypted.worker.batches.qsize())
    ]
    assert len(BODY) in [item.body.size for (item,) in batches if isinstance(item.body, Slab)]


def test_large_answer_waits_for_a_slow_reader_and_holds_up_nobody(encrypted, files):
    slab = encrypted.worker.arena.allocate(8_000_000)
    encrypted.worker.arena.view(slab)[:] = large = os.urandom(8_000_000)
    usual = encrypted.worker.answer
    encrypted.worker.answer = lambda item: ("", "x/y", slab) if item.body == b"1" else usual(item)
    with files.connect(encrypted) as slow, files.connect(encrypted) as quick:
        slow.sendall(post(b"1"))
        quick.sendall(post(b"quick"))
        assert receive(quick)[2] == b"quick"

        assert receive(slow)[::2] == (200, large)
    encrypted.worker.answer = usual


def test_refused_upload_is_told_so(encrypted, files):
    with files.connect(encrypted) as sock:
        sock.sendall(post(b"")[:-4].replace(b"Length: 0", b"Length: 99999999") + b"\r\n\r\n")
        sock.sendall(b"x" * 30_000)

        assert receive(sock)[0] == 413


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(post(b"1"), id="HTTP in the clear"),
        pytest.param(b"\x16\x03\x01", id="a handshake that stops"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_client_without_tls_is_closed_in_time_and_in_silence(start, files, sent):
    front_end = start(header_timeout=0.5, **files.settings)
    said = front_end.log.read_text()
    with front_end.connect() as sock, suppress(ConnectionError):  # closed before all was sent
        sock.sendall(sent)
        while sock.recv(64):
            pass

    assert front_end.log.read_text() == said


def test_client_that_ends_tls_alone_is_answered_and_closed(encrypted, files):
    with files.connect(encrypted) as sock:
        sock.sendall(post(b"1"))
        assert receive(sock)[0] == 200
        sock.unwrap()


def test_old_versions_are_refused(encrypted, files):
    context = ssl.create_default_context()
    files.authority.configure_trust(context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with context.wrap_socket(encrypted.connect(), server_hostname="localhost") as sock:
        assert sock.version() == "TLSv1.2"

    assert server_context(Settings(**files.settings)).minimum_version == ssl.TLSVersion.TLSv1_2


def test_client_needs_a_certificate_of_the_authority(start, files):
    front_end = start(tls_client_ca=files.ca, **files.settings)
    with files.connect(front_end, is_known=True) as sock:
        sock.sendall(post(b"1"))
        assert receive(sock)[0] == 200
    with files.connect(front_end) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
        sock.recv(1)  # TLS 1.3: the client learns of it only now


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"tls_certificate": "/nowhere.pem"}, "tls_certificate: /nowhere.pem: no such",
                     id="no certificate"),
        pytest.param({"tls_key": "/nowhere.pem"}, "tls_key: /nowhere.pem: no such", id="no key"),
        pytest.param({"tls_certificate": "junk"}, "it has no usable PEM", id="no PEM"),
        pytest.param({"tls_key": "other"}, "key values mismatch", id="key of another"),
        pytest.param({"tls_client_ca": "junk"}, "tls_client_ca", id="authority that is no PEM"),
        pytest.param({"tls_certificate": ""}, "tls_key: requires tls_cert", id="key alone"),
    ],
)  # fmt: skip
def test_bad_file_is_named_in_one_line(files, tmp_path, changes, said):
    known = {"junk": tmp_path / "junk.pem", "other": tmp_path / "other.pem"}
    known["junk"].write_text("hello\n")
    other = files.authority.issue_cert("localhost")
    known["other"].write_bytes(other.private_key_pem.bytes())
    changes = {name: str(known.get(value, value)) for name, value in changes.items()}

    with pytest.raises(StartupError) as raised:
        server_context(Settings(**files.settings | changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("common_name", "expected"),
    [
        pytest.param("ada", "commonName=ada", id="name"),
        pytest.param("a,CN=root", r"commonName=a\,CN\=root", id="name that would pass for two"),
        pytest.param(None, "", id="no certificate"),
    ],
)
def test_subject_of_a_client(tmp_path, common_name, expected):
    files = Files(tmp_path)
    ours, theirs = socket.socketpair()
    context = ssl.create_default_context()
    files.authority.configure_trust(context)
    server_side = server_context(Settings(**files.settings, tls_client_ca=files.ca))
    if common_name is None:
        server_side.verify_mode = ssl.CERT_OPTIONAL
    else:
        files.authority.issue_cert(common_name=common_name).configure_cert(context)

    def ask():
        with context.wrap_socket(theirs, server_hostname="localhost") as client:
            client.sendall(b"hi")
            client.recv(1)

    client = threading.Thread(target=ask)
    client.start()
    sock = TlsSocket(ours, server_side)
    while receive_once(sock) != b"hi":
        pass
    subject = sock.subject
    sock.close()
    client.join(WAIT_S)

    assert subject.endswith(expected)
    assert bool(subject) is bool(expected)


def receive_once(sock) -> bytes:
    try:
        return sock.recv(65536)
    except BlockingIOError:  # the handshake goes on
        return b""
