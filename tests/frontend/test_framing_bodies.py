# SPDX-License-Identifier: Apache-2.0
"""The length of bodies (RFC 9112 6, 7): one reading of every request, or none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .framing import CHUNKED, GET, HEAD, refusal_of, status_of
from .stand_ins import make_parser

LAST = b"0\r\n\r\n"
HI = b"2\r\nhi\r\n"


def length(value: bytes) -> bytes:
    return HEAD + b"Content-Length:" + value + b"\r\n\r\nhello"


def coding(value: bytes, body: bytes = LAST) -> bytes:
    return HEAD + b"Transfer-Encoding:" + value + b"\r\n\r\n" + body


TAKEN = {
    "length": length(b" 5"),
    "length without a space": length(b"5"),
    "length in spaces": length(b" \t5 \t"),
    "length with leading zeros": length(b" 005"),
    "length of a GET": b"GET /ping/live HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\nhi",
    "chunked": coding(b" chunked"),
    "CHUNKED": coding(b" CHUNKED", HI + LAST),
    "field of a similar name": HEAD + b"Transfer_Encoding: x\r\nContent-Length: 1\r\n\r\nh",
    "upper-case size": CHUNKED + b"A\r\n0123456789\r\n" + LAST,
    "size with zeros": CHUNKED + b"00000000000000000002\r\nhi\r\n000\r\n\r\n",
    "extension": CHUNKED + b"2;a\r\nhi\r\n" + LAST,
    "extension with a value": CHUNKED + b"2;a=b;c=d\r\nhi\r\n0;e\r\n\r\n",
    "extension in quotes": CHUNKED + b'2;a="b;c"\r\nhi\r\n' + LAST,
    "spaces in extensions": CHUNKED + b'2 ; a = b\t;c\r\nhi\r\n0;d= "e"\r\n\r\n',
    "space before an extension": CHUNKED + b"2 ;a\r\nhi\r\n" + LAST,
    "space in an extension": CHUNKED + b"2; a=b\r\nhi\r\n" + LAST,
    "quotes in quotes": CHUNKED + b'2;a="\\"\\\\"\r\nhi\r\n' + LAST,
    "chunked and a tab": coding(b" chunked\t", HI + LAST),
    "chunked in tabs and spaces": coding(b"\t chunked \t ", HI + LAST),
    "trailer": CHUNKED + HI + b"0\r\nX: y\r\n\r\n",
    "trailer that names a Host": CHUNKED + HI + b"0\r\nHost: evil\r\n\r\n",
}

REFUSED = {
    "length with a sign": (length(b" +5"), 400),
    "negative length": (length(b" -5"), 400),
    "list of lengths": (length(b" 5, 5"), 400),
    "list of lengths with an empty one": (length(b" ,5"), 400),
    "two numbers": (length(b" 5 5"), 400),
    "hexadecimal length": (length(b" 0x5"), 400),
    "fraction": (length(b" 5.0"), 400),
    "exponent": (length(b" 5e0"), 400),
    "underscore": (length(b" 0_5"), 400),
    "quotes": (length(b' "5"'), 400),
    "digits beyond ASCII": (length(" ٥".encode()), 400),
    "empty length": (length(b""), 400),
    "length past 64 bits": (length(b" 18446744073709551621"), 400),
    "length past 63 bits": (length(b" 9223372036854775808"), 413),
    "length over the limit": (length(b" 10485761"), 413),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello", 400),
    "the same length twice": (HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    "length, then chunked": (
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + LAST, 400,
    ),
    "chunked, then length": (
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + LAST, 400,
    ),
    "length, then unknown coding": (
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n" + LAST, 400,
    ),
    "chunked in HTTP/1.0": (coding(b" chunked").replace(b"1.1", b"1.0"), 400),
    "chunked twice": (coding(b" chunked, chunked"), 400),
    "chunked in two fields": (coding(b" chunked\r\nTransfer-Encoding: chunked"), 400),
    "identity, then chunked": (coding(b" identity\r\nTransfer-Encoding: chunked"), 400),
    "xchunked": (coding(b" xchunked"), 400),
    "chunkedx": (coding(b" chunkedx"), 400),
    "chunked in quotes": (coding(b' "chunked"'), 400),
    "chunked with a parameter": (coding(b" chunked;q=1"), 400),
    "chunked behind a vertical tab": (coding(b" \x0bchunked"), 400),
    "chunked behind nothing": (coding(b" , chunked"), 400),
    "chunked before nothing": (coding(b" chunked,"), 400),
    "chunked, then gzip": (coding(b" chunked, gzip"), 400),
    "gzip alone": (coding(b" gzip"), 400),
    "identity": (coding(b" identity"), 400),
    "no coding": (coding(b""), 400),
    "gzip, then chunked": (coding(b" gzip, chunked"), 501),
    "space before the colon": (HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + LAST, 400),
    "no size": (CHUNKED + b"\r\nhi\r\n" + LAST, 400),
    "size with 0x": (CHUNKED + b"0x2\r\nhi\r\n" + LAST, 400),
    "size with a sign": (CHUNKED + b"+2\r\nhi\r\n" + LAST, 400),
    "negative size": (CHUNKED + b"-2\r\nhi\r\n" + LAST, 400),
    "size in letters": (CHUNKED + b"g\r\nhi\r\n" + LAST, 400),
    "size with an underscore": (CHUNKED + b"0_2\r\nhi\r\n" + LAST, 400),
    "space before the size": (CHUNKED + b" 2\r\nhi\r\n" + LAST, 400),
    "space after the size": (CHUNKED + b"2 \r\nhi\r\n" + LAST, 400),
    "size past 64 bits": (CHUNKED + b"10000000000000002\r\nhi\r\n" + LAST, 400),
    "extension without a name": (CHUNKED + b"2;\r\nhi\r\n" + LAST, 400),
    "two semicolons": (CHUNKED + b"2;;a\r\nhi\r\n" + LAST, 400),
    "extension without a value": (CHUNKED + b"2;a=\r\nhi\r\n" + LAST, 400),
    "value without a name": (CHUNKED + b"2;=a\r\nhi\r\n" + LAST, 400),
    "two words in an extension": (CHUNKED + b"2;a b\r\nhi\r\n" + LAST, 400),
    "space behind an extension": (CHUNKED + b"2;a \r\nhi\r\n" + LAST, 400),
    "text behind quotes": (CHUNKED + b'2;a="b"c\r\nhi\r\n' + LAST, 400),
    "trailer about the connection": (CHUNKED + HI + b"0\r\nConnection: close\r\n\r\n", 400),
    "bare LF after a size": (CHUNKED + b"2\nhi\r\n" + LAST, 400),
    "bare CR after a size": (CHUNKED + b"2\rhi\r\n" + LAST, 400),
    "bare LF after a chunk": (CHUNKED + b"2\r\nhi\n" + LAST, 400),
    "nothing after a chunk": (CHUNKED + b"2\r\nhi" + LAST, 400),
    "chunk longer than its size": (CHUNKED + b"1\r\nhi\r\n" + LAST, 400),
    "chunk shorter than its size": (CHUNKED + b"4\r\nhi\r\n" + LAST, 400),
    "bare LF at the end": (CHUNKED + HI + b"0\r\n\n", 400),
    "bare LF in an extension": (CHUNKED + b"2;a\nb\r\nhi\r\n" + LAST, 400),
    "bare CR in an extension": (CHUNKED + b"2;a\rb\r\nhi\r\n" + LAST, 400),
    "NUL in an extension": (CHUNKED + b"2;a\0b\r\nhi\r\n" + LAST, 400),
    "open quotes in an extension": (CHUNKED + b'2;a="b\r\nhi\r\n' + LAST, 400),
    "endless extension": (CHUNKED + b"1;" + b"a" * 150_000, 431),
    "trailer that names a length": (CHUNKED + HI + b"0\r\nContent-Length: 5\r\n\r\n", 400),
    "trailer that names a coding": (CHUNKED + HI + b"0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "trailer without a colon": (CHUNKED + HI + b"0\r\nX y\r\n\r\n", 400),
    "folded trailer": (CHUNKED + HI + b"0\r\nX: y\r\n z\r\n\r\n", 400),
    "NUL in a trailer": (CHUNKED + HI + b"0\r\nX: y\0\r\n\r\n", 400),
    "endless trailer": (CHUNKED + HI + b"0\r\nX: " + b"a" * 150_000, 431),
}  # fmt: skip


@pytest.mark.parametrize("sent", TAKEN.values(), ids=TAKEN)
def test_body_is_taken(shared, sent):
    assert status_of(shared, sent) == 200


@pytest.mark.parametrize(("sent", "status"), REFUSED.values(), ids=REFUSED)
def test_body_is_refused(shared, sent, status):
    assert refusal_of(shared, sent) == status


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from(["", ";a", ' ; b="c"']))
    ),
    st.lists(st.integers(1, 50)),
)
def test_chunks_mean_the_same_however_they_are_cut(chunks, cuts):
    body = b"".join(b"%x%b\r\n%b\r\n" % (len(text), more.encode(), text) for text, more in chunks)
    sent, parser = CHUNKED + body + b"0\r\nX: y\r\n\r\n" + GET, make_parser()
    for cut in [*cuts, len(sent)]:
        assert parser.feed(sent[:cut]) is None
        sent = sent[cut:]

    assert [request.body for request in parser.requests] == [b"".join(t for t, _ in chunks), b""]


def test_pipelined_chunks_are_taken_one_after_the_other():
    parser = make_parser()
    assert parser.feed((CHUNKED + HI + LAST) * 500) is None

    assert [request.body for request in parser.requests] == [b"hi"] * 500
