# SPDX-License-Identifier: Apache-2.0
"""CSV and Parquet bodies: what a model gets of them, and what is written of its outputs."""

import io
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servekit_tables import hooks
from servekit_tables.codecs import csv, parquet

from servekit import InputError, Service
from servekit.errors import BodyMalformed
from tests.worker.batches import loaded


def columns(rows, **dtypes):
    """Return the arrays of *rows* as lists, each of the dtype that is asked for."""
    return {name: rows.values[name].array(dtype).tolist() for name, dtype in dtypes.items()}


def parquet_of(*changes, options=(), **arrays):
    """Return a file of *arrays*, in which each of *changes* replaces bytes by others."""
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink, **dict(options))
    body = sink.getvalue()
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    return body


# ---------------------------------------------------------------- CSV


def test_csv_is_read_as_the_dtypes_that_are_declared():
    rows = csv.decode(b'zip,age,"the, name"\n01234, 7 ,"a ""b""\nc"\n00000,1e1,""\n', {})

    assert rows.count == 2
    wanted = {"zip": "str", "age": "float32", "the, name": "str"}
    assert columns(rows, **wanted) == {
        "zip": ["01234", "00000"],
        "age": [7.0, 10.0],
        "the, name": ['a "b"\nc', ""],
    }
    assert columns(rows, zip="int64") == {"zip": [1234, 0]}


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("1.5", "float64", [1.5]),
        ("-3", "int8", [-3]),
        ("18446744073709551615", "uint64", [2**64 - 1]),
        ("true", "bool", [True]),
        ("0", "bool", [False]),
    ],
)
def test_an_element(text, dtype, values):
    assert columns(csv.decode(f"x\n{text}\n".encode(), {}), x=dtype) == {"x": values}


def test_an_empty_element_is_nan_for_floats_alone():
    rows = csv.decode(b"x,y\n1,a\n,b\n", {})

    assert np.isnan(rows.values["x"].array("float32")).tolist() == [False, True]
    for dtype in ("int64", "bool"):
        with pytest.raises(ValueError, match=f"row 2: empty, expected {dtype}"):
            rows.values["x"].array(dtype)


@pytest.mark.parametrize(
    ("dtype", "text", "message"),
    [
        ("float32", "1\n2\nthree\n4", "row 3: 'three' is not float32"),
        ("int64", "1\n1.5", "row 2: '1.5' is not int64"),
        ("bool", "yes", "row 1: 'yes' is not bool"),
        ("uint64", "-1", "row 1: '-1' is not uint64"),
    ],
)
def test_the_first_wrong_element_is_named(dtype, text, message):
    rows = csv.decode(f"x\n{text}\n".encode(), {})

    with pytest.raises(ValueError, match=message):
        rows.values["x"].array(dtype)


def test_a_file_without_names_has_numbers_for_them():
    rows = csv.decode(b"1,2\n3,4\n", {"header": "absent"})

    assert columns(rows, **{"0": "int64", "1": "int64"}) == {"0": [1, 3], "1": [2, 4]}


def test_a_file_with_names_only_has_no_rows():
    rows = csv.decode(b"a,b\n", {})

    assert (rows.count, list(rows.values)) == (0, ["a", "b"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"a,b\n1\n", "Expected 2 columns"),
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b",a\n0,1\n", r"column 1 has no name.*index=False"),
        (b"a\n\xff\n", "UTF8"),
    ],
    ids=["empty", "blank", "short row", "name twice", "index", "not UTF-8"],
)
def test_broken_csv_is_refused(body, message):
    with pytest.raises(BodyMalformed, match=message):
        csv.decode(body, {})


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body):
    for codec in (csv, parquet):
        try:
            rows = codec.decode(body, {})
        except BodyMalformed:
            continue
        assert rows.count >= 0


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.sampled_from([csv, parquet]))
def test_floats_come_back_as_they_were(values, codec):
    body = codec.encode({"x": np.array(values)})

    assert columns(codec.decode(body, {}), x="float64") == {"x": values}


# ---------------------------------------------------------------- Parquet


def test_parquet_keeps_types_and_axes():
    body = parquet_of(
        a=pa.array([1, 2], pa.int32()),
        text=pa.array(["x", "x"]),
        image=pa.array([[[1.0, 2.0]], [[3.0, 4.0]]]),
        day=pa.array([0, 1], pa.date32()),
    )
    rows = parquet.decode(body, {})
    found = columns(rows, a="float64", text="str", image="float32", day="str")

    assert found["a"] == [1.0, 2.0]
    assert found["text"] == ["x", "x"]
    assert found["image"] == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert found["day"] == ["1970-01-01", "1970-01-02"]


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        (pa.array([1.5]), "int64", "row 1: '1.5' is not int64"),
        (pa.array([1, None]), "int64", "row 2: empty, expected int64"),
        (pa.array(["1", "b", "b"]), "float32", "row 2: 'b' is not float32"),
        (pa.array(["a", None]), "str", "row 2: empty, expected str"),
        (pa.array([[1], [1, 2]]), "int64", "lists of 1 to 2 elements"),
        (pa.array([[1, 2], [3, None]]), "int64", "row 2: empty"),
        (pa.array([True]), "float32", "bool, expected float32"),
        (pa.array([1]), "str", "int64, expected str"),
        (pa.array([{"a": 1}]), "float32", "struct<.*>, expected float32"),
    ],
)
def test_a_column_that_does_not_fit_says_why(values, dtype, message):
    rows = parquet.decode(parquet_of(x=values), {})

    with pytest.raises(ValueError, match=message):
        rows.values["x"].array(dtype)


def test_missing_numbers_are_nan_in_text_too():
    rows = parquet.decode(parquet_of(a=pa.array([1, None]), b=pa.array(["2", None])), {})

    for name in ("a", "b"):
        assert np.isnan(rows.values[name].array("float32")).tolist() == [False, True]


def test_the_index_of_a_data_frame_is_left_out():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["first", "second"])

    assert list(parquet.decode(frame.to_parquet(), {}).values) == ["x"]


def test_repeated_text_takes_no_more_memory_than_its_file():
    texts = pa.DictionaryArray.from_arrays(np.zeros(50_000, "int32"), ["y" * 100_000])
    body = parquet_of(x=texts)  # 5 GB as separate strings
    texts = parquet.decode(body, {}).values["x"].array("str")

    assert len(body) < 1_000_000
    assert len(texts) == 50_000
    assert len({id(text) for text in texts}) == 1


REPEATED = pa.DictionaryArray.from_arrays(np.zeros(1000, "int32"), ["y" * 100_000])
PLAIN = {"store_schema": False, "write_statistics": False}.items()


@pytest.mark.parametrize(
    "values",
    [
        REPEATED.cast(pa.dictionary(pa.int32(), pa.binary())),
        pa.ListArray.from_arrays(np.arange(1001, dtype="int32"), REPEATED),
        pa.StructArray.from_arrays([REPEATED], ["a"]),
    ],
    ids=["bytes", "lists", "structs"],
)
def test_nor_does_it_elsewhere(values):
    body = parquet_of(x=values, options=PLAIN)  # 100 MB as separate strings
    before = pa.total_allocated_bytes()
    rows = parquet.decode(body, {})

    assert rows.count == 1000
    assert pa.total_allocated_bytes() - before < 1_000_000


def test_lists_of_repeated_text_are_read():
    values = pa.ListArray.from_arrays([0, 2, 4], REPEATED[:4])
    found = parquet.decode(parquet_of(x=values, options=PLAIN), {}).values["x"].array("str")

    assert found.shape == (2, 2)
    assert set(found.ravel()) == {"y" * 100_000}


def test_elements_of_a_fixed_length_count_as_several():
    values = pa.array([b"y" * 1_000] * 40_000, pa.binary(1_000))

    with pytest.raises(BodyMalformed, match=r"5000000 elements in \d+ bytes, limit 4"):
        parquet.decode(parquet_of(x=values), {})


def varint(number, length=0):
    """Return *number* as Thrift writes it, padded to *length* bytes."""
    digits = []
    number <<= 1
    while number or len(digits) < max(length, 1):
        digits.append(number & 127)
        number >>= 7
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def test_a_page_that_unpacks_to_more_than_the_file_says_is_refused(monkeypatch):
    monkeypatch.setattr("servekit_tables.reading.MAX_BYTES", 1_000_000)
    options = {**dict(PLAIN), "compression": "zstd", "use_dictionary": False}
    body = parquet_of(x=[b"y" * 2_000_000], options=options)
    said = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0).total_uncompressed_size
    true = varint(said)
    body = body.replace(true, varint(1000, len(true)))

    assert len(body) < 10_000
    chunk = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0)
    assert chunk.total_uncompressed_size == 1000
    with pytest.raises(BodyMalformed, match=r"20000\d\d bytes, limit 1000000"):
        parquet.decode(body, {})


@pytest.mark.parametrize(
    ("values", "old", "new", "message"),
    [
        # "a" is not optional, but has statistics of missing values, for which pyarrow aborts
        ([True, None], b"\x15\0\x25\x02\x18\1a", b"\x15\0\x25\0\x18\1a", "size|stream|level"),
        # a dictionary of one text, and an index of the second
        (["p", "q"], b"\x4c\x15\4\x15", b"\x4c\x15\2\x15", "indices"),
    ],
    ids=["missing values", "dictionary"],
)
def test_a_file_that_contradicts_itself_is_refused(values, old, new, message):
    with pytest.raises(BodyMalformed, match=message):
        parquet.decode(parquet_of((old, new), a=values, options=PLAIN), {})


def test_the_number_of_pages_is_limited(monkeypatch):
    monkeypatch.setattr("servekit_tables.pages.MAX_PAGES", 3)
    options = {"row_group_size": 1, "use_dictionary": False}

    assert parquet.decode(parquet_of(x=[1, 2, 3], options=options), {}).count == 3
    with pytest.raises(BodyMalformed, match="over 3 pages"):
        parquet.decode(parquet_of(x=[1, 2, 3, 4], options=options), {})


def test_pages_are_read_or_refused_whatever_they_hold():
    body = parquet_of(a=[1, 2], b=["p", "q"])
    for place in range(len(body)):
        for byte in (0, 0xFF, body[place] ^ 16):
            changed = body[:place] + bytes([byte]) + body[place + 1 :]
            with suppress(BodyMalformed):
                parquet.decode(changed, {})


@pytest.mark.parametrize(
    "header",
    [b"\x19\xf1" + b"\xff" * 8 + b"\x0f", b"\x1c" * 10_000],
    ids=["a list of 2 ** 60 elements", "structs in structs"],
)
def test_headers_of_pages_are_read_within_their_bytes(header):
    body = parquet_of(x=[b"y" * 20_000], options={**dict(PLAIN), "use_dictionary": False})
    at = pq.ParquetFile(io.BytesIO(body)).metadata.row_group(0).column(0).data_page_offset
    hostile = body[:at] + header + body[at + len(header) :]

    with pytest.raises(BodyMalformed):
        parquet.decode(hostile, {})


def test_a_table_that_is_too_large_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr("servekit_tables.reading.MAX_CELLS", 5)
    body = parquet_of(x=pa.nulls(3, pa.int8()), y=pa.nulls(3, pa.int8()))

    with pytest.raises(BodyMalformed, match=r"6 elements in \d+ bytes, limit 5"):
        parquet.decode(body, {})


def test_equal_elements_take_no_bytes_and_are_limited_by_those_of_the_file():
    body = parquet_of(x=np.zeros(1 << 23, np.float32))

    with pytest.raises(BodyMalformed, match=r"8388608 elements in \d+ bytes, limit 6\d{6}$"):
        parquet.decode(body, {})


def test_rows_are_limited_by_the_bytes_of_the_file():
    service = type("Made", (Service,), {"predict": lambda self, batch: batch["x"]})()
    service.signature = {"inputs": [{"name": "x", "dtype": "bool", "shape": []}]}
    predictor = loaded(service, hooks).predictor
    header, body = b"application/vnd.apache.parquet", parquet_of(x=np.zeros(1 << 20, bool))

    assert predictor.read(header, parquet_of(x=np.zeros(1 << 16, bool)), 0).count == 65_536
    with pytest.raises(InputError, match=r"1048576 rows in a body of \d+ bytes, limit \d+; send"):
        predictor.read(header, body, 0)


def test_lists_without_elements_are_not_believed():
    rows = parquet.decode(parquet_of(x=[[]] * 65_537), {})

    with pytest.raises(ValueError, match="65537 lists without elements, limit 65536"):
        rows.values["x"].array("float32")


# ---------------------------------------------------------------- outputs


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"label": np.array(["a", 'b"'], object)}, 'label\na\n"b"""\n'),
        (np.array([1, 2]), "prediction\n1\n2\n"),
        ([1.5, 2.5], "prediction\n1.5\n2.5\n"),
        (np.array([[1, 2], [3, 4]]), "prediction_0,prediction_1\n1,2\n3,4\n"),
        ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "a,b\n1,x\n2,y\n"),
        ({"a": 1, "b": np.float32(0.5)}, "a,b\n1,0.5\n"),
        (np.zeros((0, 2)), "prediction_0,prediction_1\n"),
    ],
    ids=["mapping", "array", "list", "two axes", "list of mappings", "a single output", "no rows"],
)
def test_outputs_as_csv(output, text):
    found, expected = (
        pd.read_csv(io.StringIO(each)) for each in (csv.encode(output).decode(), text)
    )

    assert found.to_dict("list") == expected.to_dict("list")


@pytest.mark.parametrize("codec", [csv, parquet])
@pytest.mark.parametrize(
    "output",
    [{"a": [1, 2], "b": [1]}, [{"a": 1}, {"b": 1}], {"a": object()}, [1, "a"]],
    ids=["lengths", "names", "an object", "types"],
)
def test_what_is_no_table_is_left_to_other_media_types(codec, output):
    with pytest.raises(TypeError, match="no table"):
        codec.encode(output)


def test_lists_stay_lists_in_parquet():
    probabilities = np.array([[0.25, 0.75], [1.0, 0.0]])
    frame = pd.read_parquet(io.BytesIO(parquet.encode({"p": probabilities})))

    assert np.stack(frame["p"]).tolist() == probabilities.tolist()
