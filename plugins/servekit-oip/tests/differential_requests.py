# SPDX-License-Identifier: Apache-2.0
"""Requests, good and bad, that are sent to servekit and to Triton."""

import gzip
import json
import struct
import zlib
from typing import NamedTuple

import numpy as np

from .oip_models import DTYPES

LENGTH = "Inference-Header-Content-Length"
DATATYPES = {
    "bool": "BOOL",
    **{
        f"{sign}int{bits}": f"{sign.upper()}INT{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
    "str": "BYTES",
}
EVERYTHING = "/v2/models/everything/infer"
TOTAL = "/v2/models/total/infer"
SIMPLE = "/v2/models/simple/infer"
STRING = "/v2/models/simple_string/infer"
IDENTITY = "/v2/models/simple_identity/infer"


class WireRequest(NamedTuple):
    """One request. The name tells it apart in the list of differences."""

    name: str
    path: str
    body: bytes | None = None  #: ``None``: a GET
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    method: str = ""


def values_of(dtype, rows):
    """Return ``[rows, 2]`` elements of *dtype*."""
    numbers = [[row % 2, (row + 1) % 2] for row in range(rows)]
    if dtype == "str":
        return [[f"ä{each}" for each in row] for row in numbers]
    if dtype == "bool":
        return [[bool(each) for each in row] for row in numbers]
    return numbers


def packed(dtype, values):
    """Return the elements of nested lists as bytes."""
    flat = [each for row in values for each in row]
    if dtype == "str":
        texts = [each.encode() for each in flat]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return np.array(flat, dtype).tobytes()


def binary(name, datatype, shape, content, **parameters):
    """Return an input and what is behind the JSON."""
    parameters = {"binary_data_size": len(content), **parameters}
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}, content


def listed(name, datatype, shape, data):
    """Return an input in JSON, and nothing behind it."""
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}, b""


def request(name, path, inputs, **more):
    """Return the request with *inputs*, each with what is behind the JSON."""
    text = json.dumps({"inputs": [each for each, _ in inputs], **more}).encode()
    rest = b"".join(content for _, content in inputs)
    headers = {LENGTH: str(len(text))} if rest else {}
    return WireRequest(name, path, text + rest, headers)


def everything(name, dtype, changed, rows=1, **more):
    """Return a request whose input *dtype* is *changed*; all others are as they should be."""
    inputs = [
        changed
        if each == dtype
        else binary(each, DATATYPES[each], [rows, 2], packed(each, values_of(each, rows)))
        for each in DTYPES
    ]
    return request(name, EVERYTHING, inputs, **more)


def good_tensors():
    for dtype in DTYPES:
        datatype = DATATYPES[dtype]
        for rows in (1, 3, 8):
            values, shape = values_of(dtype, rows), [rows, 2]
            flat = [each for row in values for each in row]
            wanted = [{"name": f"{dtype}_out", "parameters": {"binary_data": True}}]
            for form, tensor in (
                ("flat", listed(dtype, datatype, shape, flat)),
                ("nested", listed(dtype, datatype, shape, values)),
                ("bytes", binary(dtype, datatype, shape, packed(dtype, values))),
            ):
                yield everything(f"{form} {dtype} {rows}", dtype, tensor, rows, outputs=wanted)
        tensor = binary(dtype, datatype, [2, 2], packed(dtype, values_of(dtype, 2)))
        wanted = [{"name": f"{dtype}_out"}]
        yield everything(f"as JSON {dtype}", dtype, tensor, 2, outputs=wanted)


def bad_tensors():
    for dtype in DTYPES:
        datatype, values = DATATYPES[dtype], values_of(dtype, 1)
        flat, content = values[0], packed(dtype, values)
        other = "INT64" if datatype != "INT64" else "INT32"
        for problem, tensor in {
            "too few": listed(dtype, datatype, [1, 2], flat[:1]),
            "too many": listed(dtype, datatype, [1, 2], [*flat, *flat]),
            "short": binary(dtype, datatype, [1, 2], content[:-1]),
            "long": binary(dtype, datatype, [1, 2], content + b"\0"),
            "datatype": binary(dtype, other, [1, 2], content),
            "no list": listed(dtype, datatype, [1, 2], "x"),
            "null": listed(dtype, datatype, [1, 2], [None, None]),
            "odd kind": listed(dtype, datatype, [1, 2], [1, 2] if dtype == "str" else ["1", "2"]),
            "one axis": listed(dtype, datatype, [2], flat),
            "three axes": listed(dtype, datatype, [1, 2, 1], flat),
            "no rows": listed(dtype, datatype, [0, 2], []),
            "negative": listed(dtype, datatype, [-1, 2], flat),
            "overflowing": listed(dtype, datatype, [2**62, 2], flat),
        }.items():
            wanted = [{"name": f"{dtype}_out", "parameters": {"binary_data": True}}]
            yield everything(f"{problem} {dtype}", dtype, tensor, outputs=wanted)
    for dtype, values in {
        "int8": [1, 300],
        "uint8": [1, -1],
        "int32": [1, 2**40],
        "int64": [1, 2**70],
        "int16": [1, 1.5],
        "float32": [1, 1e39],
        "float64": [1, True],
        "bool": [0, 1],
    }.items():
        tensor = listed(dtype, DATATYPES[dtype], [1, 2], values)
        wanted = [{"name": f"{dtype}_out"}]
        yield everything(f"odd number {dtype}", dtype, tensor, outputs=wanted)
    tensor = binary("bool", "BOOL", [1, 2], b"\2\1")
    yield everything("odd byte", "bool", tensor, outputs=[{"name": "bool_out"}])
    tensor = binary("str", "BYTES", [1, 2], b"\1\0\0\0\xff\0\0\0\0")
    wanted = [{"name": "str_out", "parameters": {"binary_data": True}}]
    yield everything("not UTF-8", "str", tensor, outputs=wanted)


def pair(datatype="INT32", data=None, **more):
    """Return the two inputs of ``simple``."""
    data = data or list(range(16))
    return [listed(f"INPUT{n}", datatype, [1, 16], data)[0] | more for n in (0, 1)]


X = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3.5]}


def envelopes():
    """Requests whose JSON is odd around the tensors."""
    bodies = {
        "good": {"inputs": [X]},
        "id": {"id": "a b", "inputs": [X]},
        "id of a number": {"id": 7, "inputs": [X]},
        "empty id": {"id": "", "inputs": [X]},
        "parameters": {"parameters": {"a": 1, "b": "x", "c": True, "d": 1.5}, "inputs": [X]},
        "odd parameters": {"parameters": 7, "inputs": [X]},
        "input parameters": {"inputs": [X | {"parameters": {"a": 1}}]},
        "unknown member": {"inputs": [X], "else": 1},
        "outputs": {"inputs": [X], "outputs": [{"name": "y"}]},
        "no outputs named": {"inputs": [X], "outputs": []},
        "unknown output": {"inputs": [X], "outputs": [{"name": "z"}]},
        "output without name": {"inputs": [X], "outputs": [{}]},
        "outputs not a list": {"inputs": [X], "outputs": 7},
        "all binary": {"inputs": [X], "parameters": {"binary_data_output": True}},
        "binary": {"inputs": [X], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
        "not binary": {
            "inputs": [X],
            "parameters": {"binary_data_output": True},
            "outputs": [{"name": "y", "parameters": {"binary_data": False}}],
        },
        "odd binary": {"inputs": [X], "outputs": [{"name": "y", "parameters": {"binary_data": 7}}]},
        "no inputs": {},
        "inputs empty": {"inputs": []},
        "inputs null": {"inputs": None},
        "inputs a mapping": {"inputs": X},
        "input a text": {"inputs": ["x"]},
        "twice": {"inputs": [X, X]},
        "unknown input": {"inputs": [X, X | {"name": "z"}]},
        "other input": {"inputs": [X | {"name": "z"}]},
        "no name": {"inputs": [{k: v for k, v in X.items() if k != "name"}]},
        "no datatype": {"inputs": [{k: v for k, v in X.items() if k != "datatype"}]},
        "no shape": {"inputs": [{k: v for k, v in X.items() if k != "shape"}]},
        "no data": {"inputs": [{k: v for k, v in X.items() if k != "data"}]},
        "odd name": {"inputs": [X | {"name": 7}]},
        "odd datatype": {"inputs": [X | {"datatype": "FLOAT"}]},
        "bfloat": {"inputs": [X | {"datatype": "BF16"}]},
        "odd shape": {"inputs": [X | {"shape": "1,3"}]},
        "shape of fractions": {"inputs": [X | {"shape": [1.5, 2]}]},
        "shape above 64 bits": {"inputs": [X | {"shape": [1, 2**64]}]},
        "empty axis": {"inputs": [X | {"shape": [1, 0], "data": []}]},
        "data twice": {"inputs": [X | {"parameters": {"binary_data_size": 0}}]},
        "bytes that are not there": {"inputs": [X | {"parameters": {"binary_data_size": 12}}]},
        "unknown region": {
            "inputs": [
                {k: v for k, v in X.items() if k != "data"}
                | {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 12}}
            ]
        },
        "more rows than a batch": {"inputs": [X | {"shape": [9, 1], "data": list(range(9))}]},
        "large": {"inputs": [X | {"shape": [1, 5000], "data": list(range(5000))}]},
    }
    for name, body in bodies.items():
        yield WireRequest(name, TOTAL, json.dumps(body).encode())
    for name, text in {
        "empty body": b"",
        "not JSON": b"{",
        "a list": b"[]",
        "a number": b"7",
        "not UTF-8 at all": b'{"inputs": "\xff"}',
        "deep": b"[" * 5000,
        "infinity": b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[Infinity]}]}',
        "trailing": json.dumps({"inputs": [X]}).encode() + b"x",
    }.items():
        yield WireRequest(name, TOTAL, text)


def nulls():
    """Requests with null in place of what could be left out."""
    for name, body in {
        "id": {"id": None, "inputs": [X]},
        "parameters": {"parameters": None, "inputs": [X]},
        "outputs": {"inputs": [X], "outputs": None},
        "parameters of an input": {"inputs": [X | {"parameters": None}]},
        "parameters of an output": {"inputs": [X], "outputs": [{"name": "y", "parameters": None}]},
        "data": {"inputs": [X | {"data": None}]},
        "shape": {"inputs": [X | {"shape": None}]},
        "datatype": {"inputs": [X | {"datatype": None}]},
    }.items():
        yield WireRequest(f"null as {name}", TOTAL, json.dumps(body).encode())


def parameters():
    for key, values in {
        "sequence_id": (5, "a", -1),
        "sequence_start": (True, 1),
        "priority": (1, "1"),
        "timeout": (1_000_000, "1"),
        "binary_data_output": ("true", 1),
        "else": (None, [1], {"a": 1}),
        "triton_else": ("1",),
    }.items():
        for value in values:
            body = json.dumps({"inputs": [X], "parameters": {key: value}})
            yield WireRequest(f"parameter {key} {value!r}", TOTAL, body.encode())
    for value in ("2", 2.5, True, None, 2**31):
        wanted = [{"name": "OUTPUT0", "parameters": {"classification": value}}]
        body = json.dumps({"inputs": pair(), "outputs": wanted}).encode()
        yield WireRequest(f"classes in {value!r}", SIMPLE, body)
    for value in ("8", 8.0, -8, True, 2**40, 2**64):
        yield request(
            f"size in {value!r}",
            TOTAL,
            [binary("x", "FP32", [1, 2], bytes(8), binary_data_size=value)],
        )
    tensor = binary("x", "FP32", [1, 2], bytes(8), shared_memory_region="r")
    yield request("shared memory besides bytes", TOTAL, [tensor])


def orders():
    """Requests for inputs and outputs in any order, as bytes and as JSON."""
    names = ("OUTPUT1", "OUTPUT0")
    for name, wanted in {"in another order": names, "twice": ("OUTPUT0", "OUTPUT0")}.items():
        body = {"inputs": pair(), "outputs": [{"name": each} for each in wanted]}
        yield WireRequest(f"outputs {name}", SIMPLE, json.dumps(body).encode())
    first, second = (
        binary(f"INPUT{n}", "INT32", [1, 16], np.arange(n, n + 16, dtype=np.int32).tobytes())
        for n in (0, 1)
    )
    as_json = listed("INPUT1", "INT32", [1, 16], list(range(16)))
    for name, inputs in {
        "bytes": [first, second],
        "bytes in another order": [second, first],
        "bytes and JSON": [first, as_json],
        "JSON and bytes": [as_json, first],
    }.items():
        yield request(f"inputs of {name}", SIMPLE, inputs)
        mixed = [{"name": names[1], "parameters": {"binary_data": True}}, {"name": names[0]}]
        yield request(f"inputs of {name}, outputs of both", SIMPLE, inputs, outputs=mixed)


def codings():
    text = json.dumps({"inputs": [X]}).encode()
    with_bytes = request("", TOTAL, [binary("x", "FP32", [1, 2], bytes(8))])
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        field = {"Content-Encoding": coding}
        yield WireRequest(f"{coding} of JSON", TOTAL, pack(text), field)
        body = pack(with_bytes.body)
        yield WireRequest(f"{coding} of bytes", TOTAL, body, with_bytes.headers | field)
        yield WireRequest(f"{coding} that is none", TOTAL, b"other", field)
        yield WireRequest(f"{coding} with more behind it", TOTAL, pack(text) + b"x", field)
    for coding in ("identity", "br"):
        yield WireRequest(f"coding {coding}", TOTAL, text, {"Content-Encoding": coding})
    for accept in ("text/html", "application/octet-stream", "image/png"):
        yield WireRequest(f"accepts {accept}", TOTAL, text, {"Accept": accept})


def lengths():
    """Requests with odd lengths of the JSON."""
    good = request("", TOTAL, [binary("x", "FP32", [1, 2], bytes(8))])
    length = int(good.headers[LENGTH])
    for name, given in {
        "length fits": length,
        "length too short": length - 1,
        "length too long": length + 1,
        "length of all": len(good.body),
        "length above all": len(good.body) + 1,
        "length negative": -1,
        "length no number": "x",
        "length empty": "",
    }.items():
        yield WireRequest(name, TOTAL, good.body, {LENGTH: str(given)})
    yield WireRequest("length missing", TOTAL, good.body)
    yield WireRequest("bytes left", TOTAL, good.body + b"1234", good.headers)
    for name, given in {"length signed": f"+{length}", "length a fraction": f"{length}.0"}.items():
        yield WireRequest(name, TOTAL, good.body, {LENGTH: given})
    raw = np.arange(6, dtype=np.float32).tobytes()
    yield WireRequest("raw", TOTAL, raw, {LENGTH: "0"})
    yield WireRequest("raw of odd size", TOTAL, raw + b"1", {LENGTH: "0"})
    yield WireRequest("raw and empty", TOTAL, b"", {LENGTH: "0"})
    yield WireRequest("raw for two inputs", SIMPLE, raw, {LENGTH: "0"})


def texts():
    for name, elements in {
        "digits": ["7"] * 16,
        "signs": ["-7", "+7"] * 8,
        "empty texts": [""] * 16,
        "letters": ["x"] * 16,
    }.items():
        body = {"inputs": pair("BYTES", elements)}
        yield WireRequest(f"text {name}", STRING, json.dumps(body).encode())
    for name, elements in {
        "NUL": ["a\0b"] * 16,
        "unicode": ["ü", "漢", "😀", "a"] * 4,
        "long": ["x" * 5000] * 16,
        "empty": [""] * 16,
        "quotes": ['"\\/\b\n'] * 16,
    }.items():
        content = packed("str", [elements])
        for form, tensor in (
            ("JSON", listed("INPUT0", "BYTES", [1, 16], elements)),
            ("bytes", binary("INPUT0", "BYTES", [1, 16], content)),
        ):
            for is_binary in (False, True):
                wanted = [{"name": "OUTPUT0", "parameters": {"binary_data": is_binary}}]
                shown = f"{name} {form} {'bytes' if is_binary else 'JSON'}"
                yield request(shown, IDENTITY, [tensor], outputs=wanted)


def classes():
    for count in (-1, 0, 1, 3, 16, 99):
        wanted = [{"name": "OUTPUT0", "parameters": {"classification": count}}]
        body = json.dumps({"inputs": pair(), "outputs": wanted}).encode()
        yield WireRequest(f"classes {count}", SIMPLE, body)
    wanted = [{"name": "y", "parameters": {"classification": 1, "binary_data": True}}]
    body = json.dumps({"inputs": [X], "outputs": wanted}).encode()
    yield WireRequest("classes of fractions", TOTAL, body)
    wanted = [{"name": "OUTPUT0", "parameters": {"classification": 1}}]
    body = {"inputs": pair("BYTES", ["1"] * 16), "outputs": wanted}
    yield WireRequest("classes of texts", STRING, json.dumps(body).encode())


def pages():
    for path in (
        *("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/stats"),
        *(f"/v2/models/total{end}" for end in ("", "/ready", "/config", "/stats", "/none")),
        *(f"/v2/models/total/versions/1{end}" for end in ("", "/ready", "/config", "/stats")),
        *(f"/v2/models/total/versions/7{end}" for end in ("", "/ready", "/config", "/stats")),
        *(f"/v2/models/total/versions/x{end}" for end in ("", "/ready", "/config", "/stats")),
        *(f"/v2/models/none{end}" for end in ("", "/ready", "/config", "/stats")),
        *("/v2/models/simple", "/v2/models/simple/config", "/v2/models/everything"),
        *("/v2/models/everything/config", "/v2/none", "/v2/health/none", "/v2/", "/v2/models"),
        *("/v2/models/", "/v2/models/total/", "/v2/models/total/infer", "/v2/repository/index"),
    ):
        yield WireRequest(f"GET {path}", path)
    good = json.dumps({"inputs": [X]}).encode()
    for path in (
        *("/v2/models/none/infer", "/v2/models/total/versions/1/infer"),
        *("/v2/models/total/versions/7/infer", "/v2/models/total/versions/x/infer"),
        *("/v2", "/v2/health/live", "/v2/models/total", "/v2/models/total/config"),
        *("/v2/models/total/infer?a=b", "/v2/models/total/infer/", "/v2/models/total/predict"),
        *("/v2/models/Total/infer", "/v2/models//infer", "/v2//models/total/infer"),
        *("/v2/models/t%6ftal/infer", "/v2/models/total/versions/01/infer"),
    ):
        yield WireRequest(f"POST {path}", path, good)
    for method in ("PUT", "DELETE", "OPTIONS"):
        yield WireRequest(f"{method} infer", TOTAL, None, {}, method)
        yield WireRequest(f"{method} metadata", "/v2/models/total", None, {}, method)
    yield WireRequest("HEAD metadata", "/v2/models/total", None, {}, "HEAD")


def generations():
    for model, bodies in {
        "total": [
            *({"x": 5}, {"x": [1, 2]}, {"x": [5]}, {}, {"x": []}, {"x": None}, {"x": "a"}),
            *({"x": [1, 2], "z": 3}, {"x": [1, 2], "parameters": {"z": 3}}, {"x": True}),
            *({"parameters": {"x": [1, 2]}}, {"x": 1, "parameters": {"x": 1}}, [1], {"z": 1}),
        ],
        "four": [
            *({"x": 5}, {"x": [5]}, {"x": [1, 2, 3, 4]}, {"x": [1, 2, 3]}, {"x": [[1, 2, 3, 4]]}),
            *({"x": [1, 2, 3, 4, 5]}, {"x": []}),
        ],
        "complete": [
            {"text_input": "a", "max_tokens": 3},
            {"text_input": ["a"], "max_tokens": [3]},
            {"text_input": "ä", "parameters": {"max_tokens": 3}},
            {"text_input": "a", "max_tokens": 3, "parameters": {"max_tokens": 4}},
            {"text_input": "a", "max_tokens": 3, "parameters": {"top_k": 4}},
            {"text_input": "a"},
            {"text_input": 7, "max_tokens": 3},
            {"text_input": "a", "max_tokens": "3"},
            {"text_input": ["a", "b"], "max_tokens": 3},
        ],
        "none": [{"text_input": "a"}],
    }.items():
        for body in bodies:
            text = json.dumps(body)
            path = f"/v2/models/{model}/generate"
            yield WireRequest(f"generate {model} {text}", path, text.encode())


def all_requests():
    """Return every request; their names are unique."""
    parts = (
        *(good_tensors, bad_tensors, envelopes, nulls, parameters, orders, codings, lengths),
        *(texts, classes, generations, pages),
    )
    return [each for part in parts for each in part()]
