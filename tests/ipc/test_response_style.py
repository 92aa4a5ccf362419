# SPDX-License-Identifier: Apache-2.0
"""How responses of a route are written, and who asks for a stream."""

import msgpack
import msgspec
import pytest

from servekit.ipc.batches import Item
from servekit.ipc.response_style import ResponseStyle, StreamStyle, style_of, wants_stream
from servekit.ipc.stream_formats import EVENT_STREAM, styled

JSON = b"application/json"
DONE = StreamStyle(end="[DONE]", raw=True)


@pytest.mark.parametrize(
    ("named", "default", "style"),
    [
        pytest.param({}, None, None, id="nothing is said"),
        pytest.param({"envelope": True, "stream": {}}, None, None, id="the usual is said"),
        pytest.param({"envelope": False}, None, ResponseStyle(True), id="bare"),
        pytest.param({}, ResponseStyle(True, DONE), ResponseStyle(True, DONE), id="as the model"),
        pytest.param(
            {"envelope": True}, ResponseStyle(True, DONE), ResponseStyle(False, DONE), id="envelope"
        ),
        pytest.param(
            {"stream": {"field": "s"}},
            ResponseStyle(True, DONE),
            ResponseStyle(True, StreamStyle(field="s")),
            id="a table replaces that of the model",
        ),
        pytest.param(
            {"envelope": True, "stream": {}}, ResponseStyle(True, DONE), None, id="usual again"
        ),
    ],
)
def test_the_style_of_a_route(named, default, style):
    assert style_of(named, default) == style


@pytest.mark.parametrize(
    ("content_type", "body", "wanted"),
    [
        (JSON, b'{"x": {"stream": false}, "stream": true}', True),
        (b"Application/JSON; charset=utf-8", b'{"stream": false}', False),
        (b"application/vnd.x+json", b'{"stream": true}', True),
        (JSON, b'{"stream": null}', None),
        (JSON, b'{"stream": "true"}', None),
        (JSON, b'{"other": 1}', None),
        (JSON, b'["stream"]', None),
        (JSON, b'{"stream": tr', None),
        (JSON, b"[" * 100_000, None),
        (JSON, memoryview(b'{"stream": true}'), True),
        (b"application/msgpack", msgpack.packb({"stream": True, "x": b"\xff"}), True),
        (b"application/msgpack", msgpack.packb([True]), None),
        (b"text/plain", b'{"stream": true}', None),
        (b"", b'{"stream": true}', None),
    ],
)
def test_what_a_body_asks_for(content_type, body, wanted):
    assert wants_stream("stream", content_type, body) is wanted


def test_an_item_takes_its_style_along():
    style = ResponseStyle(True, DONE, True)
    item = Item(b"", b"", b"", "id", 1.0, style=style)

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(item), type=Item[bytes]).style == style


def test_the_pieces_of_a_styled_stream():
    events = styled(EVENT_STREAM, ResponseStyle(True, DONE))

    assert events.end == b"data: [DONE]\n\n"
    assert events.text_piece(b"a\r\nb\rc\n") == b"data: a\ndata: b\ndata: c\ndata: \n\n"
    assert styled(EVENT_STREAM, ResponseStyle(stream=StreamStyle(end=""))).end == b""
    assert styled(EVENT_STREAM, ResponseStyle(True)).end == b"event: end\ndata: {}\n\n"
    assert styled("application/jsonl", ResponseStyle(True)).output == b"%b\n"
    assert styled("application/jsonl", ResponseStyle(False, DONE)).output == b'{"output":%b}\n'


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ((b"", b""), (b"a/b", b"a/b, */*;q=0.9")),
        ((b"", b"*/*"), (b"a/b", b"a/b, */*;q=0.9")),
        ((b"application/x-www-form-urlencoded", b"*/*"), (b"a/b", b"a/b, */*;q=0.9")),
        ((b"application/json", b"text/plain"), (b"application/json", b"text/plain")),
    ],
)
def test_a_media_type_is_for_clients_that_name_none(given, filled):
    assert ResponseStyle(media_type="a/b").fill(*given) == filled
