# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Makes streams of requests: mostly right, with mistakes that real attacks are made of."""

from itertools import pairwise

from hypothesis import strategies as st

__all__ = ["pieces", "streams"]

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


def mostly(right, wrong, odds=20):
    """Draw from *wrong* once in *odds* times."""
    return st.integers(1, odds).flatmap(lambda n: st.sampled_from(wrong if n == odds else right))


METHOD = mostly(
    [b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"DELETE"],
    [b"post", b"PRI", b"CONNECT", b"", b"GE T", b"GET\0", b"POST ", b"M-SEARCH", b"A" * 300, b"\x16\x03\x01"],
)  # fmt: skip
TARGET = mostly(
    [b"/echo/predict", b"/echo/predict", b"/ping/live", b"/nothing", b"/echo/predict?a=b"],
    [b"*", b"", b"/a b", b"/\x01", b"/\xff", b"http://a/echo/predict", b"//echo/predict", b"/%2e%2e/predict",
     b"/echo/%70redict", b"/echo/predict#x", b"a:80", b"/..%2fetc/predict", b"/%00", b"/" + b"a" * 9000],
)  # fmt: skip
VERSION = mostly(
    [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"],
    [b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"HTTP/11", b"", b"HTTP/1.1x", b"ICE/1.0"],
)  # fmt: skip
END = mostly([b"\r\n"], [b"\n", b"\r", b"\r\r\n", b"\n\r", b"\0\r\n", b" \r\n", b""], odds=100)
SPACE = mostly([b" "], [b"  ", b"\t", b"", b"\x0b", b"\xa0"])
HOSTS = mostly(
    [[b"Host: a"], [b"Host: a:80"]],
    [[], [b"Host:"], [b"Host: a", b"Host: a"], [b"Host: a b"], [b"Host: a/b"], [b"Host : a"], [b"Host: \0"],
     [b"Host: u@a"], [b"Host: a", b"hOST: b"], [b"\tHost: a"], [b"Host: a,b"]],
)  # fmt: skip
EXTRAS = st.lists(
    mostly(
        [b"X: y", b"Connection: close", b"Connection: keep-alive", b"Content-Type: application/json"],
        [b"Expect: 100-continue", b"Connection: upgrade\r\nUpgrade: h2c", b" folded: x", b"X", b":", b": x",
         b"X: a\0b", b"X: a\rb", b"X y: z", b"X: \xe9", b"Content-Length: 0", b"Content-Length: 5", b"X: a\n b",
         b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip, chunked",
         b"Content-Encoding: br", b"Expect: x", b"Content-Length: -1", b"TE: trailers", b"X: " + b"a" * 9000,
         b"\xff: x", b"X-Request-Id: \x01", b"X-Request-Timeout-Ms: -1", b"Connection: content-length",
         b"Content_Length: 3", b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding : chunked"],
    ),
    max_size=3,
)  # fmt: skip
BODY = st.sampled_from(
    [b"", b"1", b'{"a":1}', SMUGGLED, b"0\r\n\r\n", b"\r\n", b"x" * 300]
) | st.binary(max_size=20)
LENGTH = mostly(
    ["{n}"],
    ["+{n}", "-{n}", "0{n}", " {n}", "{n} ", "{n},{n}", "{n}, 9", "0x{n}", "{n}.0", "1e1", "", "{n};", "\t{n}", "{n}\0",
     "99999999999999999999", "18446744073709551617", "{more}", "{less}", "٣"],
)  # fmt: skip
CHUNKED = mostly(
    [b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: CHUNKED", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: xchunked",
     b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Transfer-Encoding: chunked;a=b", b"Transfer-Encoding:",
     b"Transfer-Encoding: \"chunked\"", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"],
)  # fmt: skip
SIZE = mostly(
    ["{n:x}", "{n:X}", "0{n:x}", "{n:x};a=b"],
    ["0x{n:x}", "+{n:x}", "-{n:x}", " {n:x}", "{n:x} ", "{n:x};", "{n:x}\t", "{n:x}g", "", "ffffffffffffffff{n:x}",
     "{n:x};a=\"b", "{n:x}\n", "{n:x};\0", "{more:x}", "00000000000000000000000000{n:x}"],
)  # fmt: skip
TRAILER = mostly(
    [b"", b"X: y\r\n"],
    [b"X\r\n", b"Content-Length: 3\r\n", b" x\r\n", b"X: y\n", b"Host: b\r\n", b"\0\r\n"],
)
NASTY = st.sampled_from([bytes((b,)) for b in b'\0\r\n\t :;,\x0b\x7f\x80\xff0a"/'])


@st.composite
def chunks(draw, body):
    """Return *body* in chunks."""
    text = b""
    while body:
        size = draw(st.integers(1, len(body)))
        piece, body = body[:size], body[size:]
        head = draw(SIZE).format(n=size, more=size + draw(st.integers(1, 9)))
        text += head.encode() + draw(END) + piece + draw(END)
    return text + b"0" + draw(END) + draw(TRAILER) + draw(END)


@st.composite
def requests(draw):
    """Return one request."""
    body = draw(BODY)
    fields = draw(HOSTS) + draw(EXTRAS)
    framing = draw(st.sampled_from(["length", "length", "chunked", "none"]))
    if framing == "length":
        length = draw(LENGTH).format(n=len(body), more=len(body) + 7, less=max(0, len(body) - 1))
        fields = [*fields, b"Content-Length: " + length.encode()]
    elif framing == "chunked":
        fields = [*fields, draw(CHUNKED)]
        body = draw(chunks(body))
    line = draw(METHOD) + draw(SPACE) + draw(TARGET) + draw(SPACE) + draw(VERSION) + draw(END)
    head = b"".join(field + draw(END) for field in draw(st.permutations(fields)))
    return line + head + draw(END) + body


@st.composite
def streams(draw):
    """Return what one client sends over one connection."""
    stream = b"".join(draw(st.lists(requests(), min_size=1, max_size=3)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(stream)))
        removed = draw(st.integers(0, 3))
        stream = stream[:at] + draw(NASTY | st.just(b"")) + stream[at + removed :]
    return stream


@st.composite
def pieces(draw, stream):
    """Return *stream* cut as a network may cut it."""
    cuts = draw(st.lists(st.integers(0, len(stream)), max_size=3).map(sorted))
    edges = [0, *cuts, len(stream)]
    return [stream[a:b] for a, b in pairwise(edges) if a < b]
