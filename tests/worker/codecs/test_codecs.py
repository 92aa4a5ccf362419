# SPDX-License-Identifier: Apache-2.0
"""Every codec: the bodies that it reads and refuses, and what it writes."""

import builtins
import contextlib
import io
import math
import struct
import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servekit.errors import BodyMalformed, RequestError, ResultNotEncodable
from servekit.extension.bodies import decode_problem
from servekit.worker.codecs import json as json_codec
from servekit.worker.codecs import msgpack as msgpack_codec
from servekit.worker.codecs import npy as npy_codec
from servekit.worker.codecs import value as value_codec
from servekit.worker.codecs.msgpack import ARRAY
from servekit.worker.codecs.plain import raw, sniff, text

JSON, MSGPACK, NPY = json_codec.codec, msgpack_codec.codec, npy_codec.codec
VALUE, VALUE_LISTS = value_codec.value, value_codec.values


def npy(array, **keys):
    """Return *array* as numpy writes it."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **keys)
    return file.getvalue()


def npy_header(text, version=b"\x01\x00"):
    """Return a ``.npy`` file of nothing but a header."""
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode()


def tensor(dtype, shape, body):
    """Return an array as a msgpack extension, whatever it claims."""
    return msgpack.packb(msgpack.ExtType(ARRAY, msgpack.packb([dtype, shape, body])))


REFUSED_JSON = [
    (b"", "body: empty"),
    (b" \n", "body: empty"),
    (b"{", "truncated"),
    (b"[NaN]", "invalid character"),
    (b"[Infinity]", "invalid character"),
    (b"1e999", "Number out of range"),
    (b"[" + b"1" * 5000 + b"]", "out of range"),
    (b"\xef\xbb\xbf1", "invalid character"),
    ("[1]".encode("utf-16"), "invalid character"),
    (b'"\xff"', "not UTF-8"),
    (b'"\xed\xa0\x80"', "not UTF-8"),
    (b'"\\ud800"', "truncated"),
    (b"[1] x", "trailing"),
    (b"[1,]", "trailing comma"),
    (b"{1:2}", "keys must be strings"),
    (b"01", "invalid number"),
    (b"'a'", "invalid character"),
    (b"[" * 101 + b"]" * 101, "deeper than 100"),
    (b"[" * 100_000, "deeper than 100"),
    (b'{"a":' * 250_000, "deeper than 100"),
    (b'["' + b"[" * 200 + b'",' + b"[" * 200, "deeper than 100"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED_JSON)
def test_json_that_is_refused(body, message):
    with pytest.raises(BodyMalformed, match=message):
        JSON.decode(body, {})


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b" [1, -0.5, true, null] ", [1, -0.5, True, None]),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'["' + b"[" * 300 + b'"]', ["[" * 300]),
        (b'["\\\\","' + b"[" * 300 + b'","\\""]', ["\\", "[" * 300, '"']),
        (b"[" * 100 + b"]" * 100, msgspec.json.decode(b"[" * 100 + b"]" * 100)),
        (b"[" + b"[],{}," * 300 + b"1]", [*([[], {}] * 300), 1]),
    ],
)
def test_json_that_is_taken(body, value):
    assert JSON.decode(body, {}) == value


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'["' + b'\\"' * 500_000, b'"' * 1_000_001])
def test_hostile_json_costs_linear_time(body):
    started = time.process_time()
    with pytest.raises(BodyMalformed):
        JSON.decode(body, {})

    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            {"a": np.float32(1.5), "b": np.int64(2), "c": np.bool_(True)},
            b'{"a":1.5,"b":2,"c":true}',
        ),
        (np.arange(4, dtype=np.uint8).reshape(2, 2), b"[[0,1],[2,3]]"),
        (np.array(["a", None], object), b'["a",null]'),
        ((1, [None, "null"]), b'[1,[null,"null"]]'),
        (b"abc", b'"YWJj"'),
        ([Decimal("1.50"), {1}, date(2026, 1, 2)], b'["1.50",[1],"2026-01-02"]'),
        (2**70, b"1180591620717411303424"),
        ({"\ud800": ["\udfff", "é", 1.5]}, b'{"\\ud800":["\\udfff","\\u00e9",1.5]}'),
        ({1: 2}, b'{"1":2}'),
    ],
)
def test_outputs_as_json(output, expected):
    assert JSON.encode(output) == expected


DERIVED = [
    ("str", ("a",), "a"),
    ("int", (2**70,), 2**70),
    ("float", (1.5,), 1.5),
    ("bytes", (b"abc",), b"abc"),
    ("bytearray", (b"abc",), b"abc"),
    ("datetime", (2026, 1, 2, 3, 4, 5, 6, UTC), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
    ("date", (2026, 1, 2), date(2026, 1, 2)),
    ("time", (3, 4, 5, 6), clock(3, 4, 5, 6)),
    ("timedelta", (1, 2, 3), timedelta(1, 2, 3)),
    ("Decimal", ("1.50",), Decimal("1.50")),
]
TYPES = {"datetime": datetime, "date": date, "time": clock, "timedelta": timedelta}


@pytest.mark.parametrize(("base", "arguments", "plain"), DERIVED)
def test_values_of_derived_classes_are_written_as_their_base(base, arguments, plain):
    """As ``pandas.Timestamp`` is of ``datetime``, whatever they say that they are."""
    kind = {**vars(builtins), **TYPES, "Decimal": Decimal}[base]
    derived = type("Derived", (kind,), {"__str__": lambda self: "x", "__repr__": None})(*arguments)

    assert JSON.encode([derived, {"a": derived}]) == JSON.encode([plain, {"a": plain}])
    if base != "int":
        assert MSGPACK.encode([derived]) == MSGPACK.encode([plain])


@pytest.mark.parametrize(
    "output",
    [
        math.nan,
        [1, {"a": [math.inf]}],
        np.float32("nan"),
        np.array([1, -np.inf]),
        object(),
    ],
    ids=["nan", "infinity inside", "nan of numpy", "infinity in an array", "any object"],
)
def test_outputs_that_json_cannot_hold(output):
    with pytest.raises(ResultNotEncodable):
        JSON.encode(output)


REFUSED_MSGPACK = [
    (b"", "empty"),
    (b"\xdd\xff\xff\xff\xff", "truncated"),
    (b"\xdf\xff\xff\xff\xff", "truncated"),
    (b"\xc6\xff\xff\xff\xff", "truncated"),
    (b"\xc1", "not msgpack"),
    (b"\xa5ab", "truncated"),
    (b"\x01\x02", "trailing"),
    (b"\xc7\x03\x05abc", "unknown extension type 5"),
    (b"\xc7\x03\xffabc", "timestamp"),
    (b"\x81\x01\x02", "map key"),
    (b"\x81\x91\x01\x02", "map key"),
    (b"\x81\xc4\x01a\x02", "not a string"),
    (b"\x82\xa1a\x01\xa1a\x02", "duplicate key"),
    (b"\xa1\xff", "decode byte"),
    (b"\x91" * 101 + b"\xc0", "deeper than 100"),
    (b"\x91" * 1000 + b"\xc0", "deeper than 100"),
    (b"\x91" * 5000 + b"\xc0", "deeper than 100"),
    (b"\x81\xa1a" * 101 + b"\xc0", "deeper than 100"),
    (b"\xdd\x00\x0f\x00\x00" * 200_000, "deeper than 100"),
    (tensor("float32", [2], b"1234"), "4 bytes, its dtype and shape need 8"),
    (tensor("object", [1], b"12345678"), "known dtype"),
    (tensor("float32", [-1], b""), "at least 0"),
    (tensor("float32", [True], b"1234"), "at least 0"),
    (tensor("float32", [2**63], b""), "need"),
    (tensor("uint8", [2**4, 2**60 + 2], b"x" * 32), "need"),
    (tensor("uint8", [0, 2**62, 2**62], b""), "than an array can have"),
    (tensor("uint8", [1] * 33, b"x"), "33 axes, limit 32"),
    (tensor("bool", [2], b"\x01\x02"), "a byte other than 0 and 1"),
    (tensor("uint8", 1, b"x"), r"not \[dtype, shape, bytes\]"),
    (msgpack.packb(msgpack.ExtType(ARRAY, b"\xc1")), "not msgpack"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED_MSGPACK)
def test_msgpack_that_is_refused(body, message):
    with pytest.raises(BodyMalformed, match=message):
        MSGPACK.decode(body, {})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="f4").reshape(2, 3),
        np.zeros((0, 3), "i8"),
        np.array([True]),
        np.ones((2, 2)).T,
    ],
    ids=str,
)
def test_arrays_travel_as_msgpack_extension_and_as_npy(array):
    by_msgpack = MSGPACK.decode(MSGPACK.encode({"a": [array]}), {})["a"][0]
    for found in (by_msgpack, NPY.decode(NPY.encode(array), {})):
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"a": (1, b"b", None)}, {"a": [1, b"b", None]}),
        (np.float32(1.5), 1.5),
        (np.array(["a"], object), ["a"]),
        (np.array(3), 3),
    ],
)
def test_outputs_as_msgpack(output, expected):
    assert msgpack.unpackb(MSGPACK.encode(output)) == expected


def test_the_layout_of_an_array_in_msgpack():
    found = msgpack.unpackb(MSGPACK.encode(np.array([[1, 2]], ">u2")))

    assert found.code == 78
    assert msgpack.unpackb(found.data) == ["uint16", [1, 2], b"\x01\x00\x02\x00"]


@pytest.mark.parametrize(
    "output",
    [2**70, object(), np.array([object()])],
    ids=["long", "any object", "array of objects"],
)
def test_outputs_that_msgpack_cannot_hold(output):
    with pytest.raises(ResultNotEncodable):
        MSGPACK.encode(output)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(5),
        np.ones(2, ">f4"),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy_files_are_read(array, version):
    found = NPY.decode(npy(array, version=version), {})

    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


@pytest.mark.parametrize("size", range(70, 80))
def test_an_array_is_aligned_however_long_the_header_of_its_file_is(size):
    """numpy pads the header, other writers may not."""
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }".ljust(size - 1) + "\n"
    found = NPY.decode(memoryview(npy_header(text) + np.array([1.5, 2.5]).tobytes()), {})

    assert found.flags.aligned
    assert not found.flags.writeable
    assert found.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b"\x93NUMPY", "not a .npy file"),
        (b"nonsense" * 20, "not a .npy file"),
        (npy(np.arange(3.0))[:-1], "23 bytes, its dtype and shape need 24"),
        (npy(np.arange(3.0)) + b"x", "25 bytes"),
        (npy(np.array([{}]), allow_pickle=True), "dtype object"),
        (npy(np.array(["a"])), "dtype <U1"),
        (npy(np.zeros(1, "i4,i4")), "dtype"),
        (npy(np.zeros(1, complex)), "dtype complex128"),
        (npy_header("{'descr':'<f8','fortran_order':False,'shape':(-1,)}"), "at least 0"),
        (npy_header(f"{{'descr':'<f8','fortran_order':False,'shape':({2**63},)}}"), "need"),
        (npy_header(f"{{'descr':'|u1','fortran_order':False,'shape':(16,{2**60 + 2})}}"), "need"),
        (npy_header(f"{{'descr':'|u1','fortran_order':False,'shape':{(1,) * 33}}}"), "33 axes"),
        (npy_header("{'descr':'|O','fortran_order':False,'shape':(1,)}"), "dtype object"),
        (npy_header("{'descr':'|V8','fortran_order':False,'shape':(1,)}"), "dtype"),
        (npy_header("{'descr':'>U4294967295','fortran_order':False,'shape':(1,)}"), "npy|dtype"),
        (npy_header("(" * 4000), "not a .npy file"),
        (npy_header("{" + " " * 60000 + "}"), "not a .npy file"),
        (npy(np.array([True]))[:-1] + b"\x02", "a byte other than 0 and 1"),
        (npy_header("{}", b"\x03\x00"), "version"),
        (npy_header("{}", b"\x09\x00"), "npy"),
    ],
)
def test_npy_that_is_refused(body, message):
    with pytest.raises(BodyMalformed, match=message):
        NPY.decode(body, {})


def test_booleans_of_other_bytes_are_written_as_booleans():
    array = np.array([2, 0, 255], np.uint8).view(bool)

    for codec in (MSGPACK, NPY):
        assert codec.decode(codec.encode(array), {}).tolist() == [True, False, True]


def test_an_output_of_more_axes_than_are_taken_is_not_written():
    for codec in (MSGPACK, NPY, VALUE):
        with pytest.raises(ResultNotEncodable, match="33 axes, limit 32"):
            codec.encode(np.zeros([1] * 33))


def test_outputs_that_make_an_array_are_written_as_npy():
    assert np.load(io.BytesIO(NPY.encode([[1.5, 2]]))).tolist() == [[1.5, 2.0]]
    for output in ({"a": 1}, "a", ["a"], None, b"a"):
        with pytest.raises(TypeError):
            NPY.encode(output)


def test_bytes_and_texts_are_what_they_are():
    assert raw.decode(b"\x00\xff", {}) == b"\x00\xff" == raw.encode(memoryview(b"\x00\xff"))
    assert text.decode("é".encode(), {}) == "é" == text.encode("é").decode()
    assert (raw.decode(b"", {}), text.decode(b"", {})) == (b"", "")
    with pytest.raises(BodyMalformed):
        text.decode(b"\xff", {})


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"abc", None),
        (b"", None),
    ],
)
def test_bytes_tell_what_they_are(body, media_type):
    assert sniff(body) == media_type


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_what_is_written_is_read_again(value):
    for codec in (JSON, MSGPACK):
        assert codec.decode(codec.encode(value), {}) == value


@pytest.mark.parametrize("codec", [JSON, MSGPACK, NPY], ids=["json", "msgpack", "npy"])
@given(
    st.binary(max_size=64)
    | st.builds(lambda a, b: npy(np.arange(3))[:a] + b, st.integers(0, 160), st.binary(max_size=40))
    | st.builds(
        lambda a, b: MSGPACK.encode([np.arange(3), {"a": 1}])[:a] + b,
        st.integers(0, 60),
        st.binary(max_size=8),
    )
    | st.text('[]{}",:0123456789.eE+-truefalsn\\ud8', max_size=40).map(str.encode)
)
def test_any_bytes_are_a_value_or_a_request_error(codec, body):
    with contextlib.suppress(RequestError):
        codec.decode(body, {})


MOMENTS = st.builds(
    msgpack.Timestamp, st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999)
)


@given(st.recursive(MOMENTS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_timestamps_keep_their_nanoseconds(sent):
    value = MSGPACK.decode(msgpack.packb(sent), {})
    between_stages = VALUE.decode(VALUE.encode(value), {})

    assert msgpack.unpackb(MSGPACK.encode(value)) == sent
    assert msgpack.unpackb(MSGPACK.encode(between_stages)) == sent


@given(MOMENTS)
def test_a_timestamp_in_json_has_as_many_digits_as_it_needs(sent):
    moment = MSGPACK.decode(msgpack.packb(sent), {})
    written = msgspec.json.decode(JSON.encode(moment))

    assert isinstance(moment, datetime)
    assert written[:19] == moment.isoformat()[:19]
    if sent.nanoseconds % 1000:
        assert written.endswith(f".{sent.nanoseconds:09}Z")


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | MOMENTS.map(lambda sent: MSGPACK.decode(msgpack.packb(sent), {})),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(ANYTHING)
@example({"\ud800": {"a": 2**64}})
@example([2**4000, -(2**63) - 1, -(2**63), 2**64 - 1, 2**64])
def test_whatever_a_client_sends_goes_from_stage_to_stage_as_it_is(value):
    assert VALUE.decode(VALUE.encode(value), {}) == value
    assert VALUE_LISTS.decode(VALUE_LISTS.encode([value, 1]), {}) == [value, 1]


def test_an_array_beside_a_long_integer_stays_an_array():
    found = VALUE.decode(VALUE.encode({"a": np.arange(3), "b": [2**70], "c": {1: "\ud800"}}), {})

    assert found["a"].tolist() == [0, 1, 2]
    assert (found["b"], found["c"]) == ([2**70], {1: "\ud800"})


class Wide(msgspec.Struct):
    x: int


def test_fields_of_a_type_may_be_long_integers():
    assert VALUE.decode(VALUE.encode([Wide(2**70)]), {}) == [{"x": 2**70}]
    for output in (object(), [2**70, object()], np.array([object()])):
        with pytest.raises(ResultNotEncodable):
            VALUE.encode(output)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "not UTF-8"),
        (msgspec.DecodeError("Invalid UTF-8 encoded string"), "not UTF-8"),
        (msgspec.DecodeError("Input data was truncated"), "Input data was truncated"),
    ],
)
def test_every_version_of_msgspec_says_the_same_of_what_is_not_utf_8(error, problem):
    assert decode_problem(error) == problem
