# SPDX-License-Identifier: Apache-2.0
"""From a ``Content-Type`` and a body to an input."""

import types

import msgpack
import msgspec
import pytest

from servekit import hookimpl
from servekit.errors import PluginError, UnknownMediaType
from servekit.ipc.batches import BETWEEN_STEPS
from servekit.plugins import create_plugin_manager
from servekit.worker.codecs.table import CodecTable
from servekit.worker.codecs.value import model_value
from servekit.worker.envelopes.table import WorkerCodecs
from tests.worker.batches import answer, answers, echo, item, loaded, prediction, service_of

ANYTHING = service_of(echo)
FORM = "multipart/form-data; boundary=B"


def form(*parts: str, end="--B--\r\n"):
    """Return a form of *parts*, each its headers, an empty line and its content."""
    return (
        "".join(f"--B\r\nContent-Disposition: form-data; {part}\r\n" for part in parts).encode()
        + end.encode()
    )


@pytest.mark.parametrize("media_type", BETWEEN_STEPS)
def test_media_types_between_steps_are_not_for_clients(media_type):
    body = model_value.encode(1)
    part = f'name="a"; filename="a"\r\nContent-Type: {media_type}\r\n\r\n'
    without_nul = "application/vnd.servekit" + media_type.removeprefix("\0servekit")

    for content_type, sent in ((FORM, form(part)), (without_nul, body)):
        assert answer(ANYTHING, sent, content_type)[0] in ("UnknownMediaType", "BodyMalformed")
    codecs = WorkerCodecs(CodecTable(create_plugin_manager(discover=False)))
    with pytest.raises(UnknownMediaType, match="contains NUL"):
        codecs.read(media_type, body)


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b"[1]", [1]),
        ("application/json; charset=UTF-8", b'"\xc3\xa9"', "é"),
        ("application/vnd.example+json", b"[1]", [1]),
        ("application/msgpack", msgpack.packb({"a": 1}), {"a": 1}),
        ("application/x-msgpack", msgpack.packb([1]), [1]),
        ("application/vnd.msgpack", msgpack.packb([1]), [1]),
        ("text/plain", "é".encode(), "é"),
        ("text/plain;charset=utf8", b"a", "a"),
        ("application/octet-stream", b"abc", "YWJj"),
        ("image/png", b"abc", "YWJj"),
        ("audio/wav", b"abc", "YWJj"),
        (FORM, form('name="a"\r\n\r\n[1, 2]', 'name="b"\r\n\r\ntext'), {"a": [1, 2], "b": "text"}),
        (FORM, form('name="f"; filename="f.bin"\r\n\r\nabc'), {"f": "YWJj"}),
        (
            FORM,
            form('name="f"; filename="f"\r\nContent-Type: application/json\r\n\r\n{}'),
            {"f": {}},
        ),
        (FORM, form('name="t"\r\nContent-Type: text/plain\r\n\r\n1'), {"t": "1"}),
        (FORM, form('name="f"; filename="f"\r\n\r\n'), {"f": ""}),
        (FORM, form('name="f"; filename="a; name=b.bin"\r\n\r\nabc'), {"f": "YWJj"}),
        (FORM, form('name="f"; filename="a"; filename*=utf-8\'\'a\r\n\r\nabc'), {"f": "YWJj"}),
        ("application/octet-stream", b"", ""),
        ("image/png", b"", ""),
        ("text/plain", b"", ""),
    ],
)
def test_bodies_are_read_by_their_content_type(content_type, body, expected):
    name, text = answer(ANYTHING, body, content_type, "application/json")

    assert name == "application/json", text
    assert msgspec.json.decode(text)["prediction"] == expected


@pytest.mark.parametrize("padding", ["", " ", "\t", " \t ", " " * 10_000])
def test_white_space_may_stand_behind_a_boundary(padding):
    body = form('name="a"\r\n\r\n--B x\r\n --B ', 'name="b"\r\n\r\n2')
    padded = body.replace(b"--B\r\n", f"--B{padding}\r\n".encode())
    ended = padded.replace(b"--B--\r\n", f"--B--{padding}\r\n".encode())

    for each in (padded, ended, ended.removesuffix(b"\r\n")):
        assert prediction(ANYTHING, each, FORM) == {"a": "--B x\r\n --B ", "b": 2}


def test_only_white_space_may_stand_behind_a_boundary():
    for padding in (b" x", b"x", b"\x0b", b" -", b"-"):
        body = form('name="a"\r\n\r\n1').replace(b"--B\r\n", b"--B%b\r\n" % padding)
        assert answer(ANYTHING, body, FORM)[0] == "BodyMalformed"


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        ("", "Content-Type: missing; one of application/json, "),
        ("text/html", "Content-Type: text/html is not taken; one of application/json, "),
        ("json", "'json' is not a media type"),
        ("application/json; charset=latin-1", "charset 'latin-1' is not utf-8"),
        ("text/plain; charset=utf-16", "charset 'utf-16' is not utf-8"),
        ("application/x-pickle", "is not taken"),
        ("application/vnd.bentoml+pickle", "is not taken"),
        ("application/json; charset=utf-8; charset=latin-1", "is not a media type"),
        ("application/json, text/plain", "is not a media type"),
        ("application/json; charset", "is not a media type"),
        ("application/json charset=utf-8", "is not a media type"),
        ("application/ json", "is not a media type"),
        ("application/x-www-form-urlencoded", "add -H 'Content-Type: application/json'"),
    ],
)
def test_content_types_that_are_refused_say_what_is_taken(content_type, message):
    name, detail = prediction(ANYTHING, b'{"a":1}', content_type)

    assert name == "UnknownMediaType"
    assert message in detail


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: empty"),
        (b"abc", "with the boundary it names"),
        (form('name="a"\r\n\r\n1', end=""), "with the boundary it names"),
        (form('name="a"\r\n\r\n1', 'name="a"\r\n\r\n2'), "a: duplicate part name"),
        (form('name=""\r\n\r\n1'), "a part has no name"),
        (form(*[f'name="{i}"\r\n\r\n1' for i in range(129)]), "limit of 128 parts"),
        (form(*['name="a"\r\n\r\n1'] * 100_000), "limit of 128 parts"),
        (form("\r\n\r\n1"), "with the boundary it names"),
        (form('name="a"\r\nContent-Disposition: form-data; name="b"\r\n\r\n1'), "duplicate header"),
        (form('name="a"\r\nX: ' + "y" * 5000 + "\r\n\r\n1"), "headers of 4096 bytes"),
        (form('name="a"' + "\r\nX: y" * 9 + "\r\n\r\n1"), "of 8 headers"),
        (form('name="a"\r\n X: folded\r\n\r\n1'), "with the boundary it names"),
        (form('name="a"\nX: y\n\n1'), "with the boundary it names"),
        (form('name="a"\r\nContent-Length: 3\r\n\r\n1'), "with the boundary it names"),
        (b"--C\r\n\r\n--C--\r\n", "with the boundary it names"),
        (
            b"--B\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--B--\r\n",
            "the boundary it names",
        ),
        (b"--B\r\nX: y\r\n\r\n1\r\n--B--\r\n", "the boundary it names"),
        (form('name="a"\r\n\r\n1', end="--B-"), "with the boundary it names"),
        (b"\r" * 10_000_000, "with the boundary it names"),
        (form('name="a"\r\nContent-Type: application/json\r\n\r\n{'), "a: body: "),
        (form('name="a"\r\n\r\n\xff').replace(b"\xc3\xbf", b"\xff"), "a: not UTF-8"),
        (form('name="a"; name="b"\r\n\r\n1'), "Content-Disposition repeats one of name, name"),
        (form('name=a; NAME="b"\r\n\r\n1'), "repeats one of name, name"),
        (form("name=\"a\"; name*=utf-8''b\r\n\r\n1"), "repeats one of name, name"),
        (
            form('name="a"; filename="a"; filename="b"\r\n\r\n1'),
            "repeats one of name, filename, filename",
        ),
        (form('name="a"; x=y; name=b\r\n\r\n1'), "repeats one of name, x, name"),
    ],
)
def test_forms_that_are_refused(body, message):
    name, detail = prediction(ANYTHING, body, FORM)

    assert name == "BodyMalformed"
    assert message in detail


@pytest.mark.parametrize(
    ("part_type", "message"),
    [
        ("multipart/mixed; boundary=C", "a form within a form"),
        ("text/html", "is not taken"),
        ("a", "no"),
        ("text/plain; charset=latin-1", "is not utf-8"),
        ("text/plain; x=\u65e5", "is not a media type"),
        ("text/plain\r\nContent-Transfer-Encoding: base64", "only binary is taken"),
        ("text/plain\r\nContent-Transfer-Encoding: quoted-printable", "only binary is taken"),
    ],
)
def test_the_type_of_a_part_is_checked_like_that_of_a_body(part_type, message):
    body = form(f'name="a"\r\nContent-Type: {part_type}\r\n\r\nx')
    name, detail = prediction(ANYTHING, body, FORM)

    assert name == "UnknownMediaType"
    assert detail.startswith("a: ")
    assert message in detail


@pytest.mark.parametrize(
    "boundary",
    [
        "",
        ";boundary=",
        ';boundary="',
        ";boundary=" + "B" * 71,
        ';boundary="B "',
        ";boundary=B[",
        ";x=B",
    ],
)
def test_a_form_without_a_boundary_is_malformed(boundary):
    name, _ = prediction(ANYTHING, form('name="a"\r\n\r\n1'), f"multipart/form-data{boundary}")

    assert name in ("BodyMalformed", "UnknownMediaType")


@pytest.mark.parametrize("boundary", ["B" * 70, "'()+_,-./:=?", "a b"])
def test_a_boundary_may_be_what_the_standard_allows(boundary):
    body = form('name="a"\r\n\r\n1').replace(b"--B", b"--" + boundary.encode())

    assert prediction(ANYTHING, body, f'multipart/form-data; boundary="{boundary}"') == {"a": 1}


def test_what_surrounds_the_parts_of_a_form_means_nothing():
    body = b"preamble\r\n" + form('name="a"\r\n\r\n1') + b"epilogue --B"

    assert prediction(ANYTHING, body, FORM) == {"a": 1}


@pytest.mark.parametrize(
    "filename", ["../../etc/passwd", "/etc/passwd", "C:\\x", "a%00b", "http://127.0.0.1:1/x", ""]
)
def test_the_name_of_a_file_means_nothing(filename):
    part = f'name="f"; filename="{filename}"\r\nContent-Type: application/json\r\n\r\n1'

    assert prediction(ANYTHING, form(part), FORM) == {"f": 1}


def test_content_types_that_clients_invent_are_not_remembered_without_limit():
    predictor = loaded(ANYTHING).predictor
    for i in range(3000):
        predictor.answer([item(1, f"application/json; x={i}", f"application/json, a/b{i}")])

    cells = [cell.cell_contents for cell in predictor.read.__closure__]
    assert max(len(cell) for cell in [*cells, predictor.plans] if isinstance(cell, dict)) <= 256


class Upper:
    """A codec of a plugin."""

    encode = None

    @staticmethod
    def decode(body, parameters):
        """Return the body in capitals."""
        if body == b"broken":
            raise KeyError("internal detail")
        return body.decode().upper()


upper = Upper()


def plugin(**codecs):
    """Return a plugin that offers *codecs*; dots stand for slashes."""
    offers = {name.replace("__", "/"): target for name, target in codecs.items()}
    module = types.ModuleType("plugin")
    module.register_codecs = hookimpl(specname="register_codecs")(lambda: offers)
    return module


def test_the_codec_of_a_plugin_replaces_the_built_in_one():
    predictor = loaded(ANYTHING, plugin(text__plain=f"{__name__}:upper")).predictor
    items = [item(body, "text/plain", "application/json") for body in (b"a", b"broken")]
    (_, _, good), (error, _, bad) = predictor.answer(items).answers

    assert good == b'{"prediction":"A"}'
    assert (error, bad) == (
        "BodyMalformed",
        b'{"detail":"body: not readable as text/plain","errors":[]}',
    )


def test_two_plugins_that_offer_one_media_type_are_both_named():
    manager = create_plugin_manager(plugin(a__b="x:y"), discover=False)
    manager.register(plugin(a__b="x:z"), "other")

    with pytest.raises(PluginError, match=r"a/b: offered by .* and .*; uninstall one"):
        CodecTable(manager)


def test_a_codec_that_does_not_import_fails_only_requests_of_its_type():
    service = service_of(echo)
    predictor = loaded(service, plugin(a__b="absent_module:codec")).predictor
    turn = predictor.answer([item(b"1", "a/b"), item(b"1")])

    assert [error for error, _, _ in turn.answers] == ["PredictFailed", ""]
    assert answers(service, item(1))[0][0] == "application/json"
