# SPDX-License-Identifier: Apache-2.0
"""Messages of gRPC, good and bad, that are sent to servekit and to Triton."""

import struct
from typing import Any, NamedTuple

import numpy as np
from servekit_oip.grpc.messages import message_class

from .differential_requests import DATATYPES, packed, values_of
from .oip_models import DTYPES, EVERYTHING, IN_FIELDS, MODELS, every_dtype

#: those that both have, as ``oip_models.MODELS``
SHARED = {name: MODELS[name] for name in ("simple", "simple_identity", "total", "everything")} | {
    "fields": ("Everything", EVERYTHING, every_dtype(IN_FIELDS))
}
FIELDS = {
    "bool": "bool_contents",
    **dict.fromkeys(("int8", "int16", "int32"), "int_contents"),
    "int64": "int64_contents",
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint_contents"),
    "uint64": "uint64_contents",
    "float32": "fp32_contents",
    "float64": "fp64_contents",
    "str": "bytes_contents",
}
NAN, INF = float("nan"), float("inf")
Request = message_class("ModelInferRequest")


class GrpcCase(NamedTuple):
    """One call. The name tells it apart in the list of differences."""

    name: str
    message: Any
    method: str = "ModelInfer"


def put(asked, name, datatype, shape, values, field):
    """Add an input whose elements are in *field*."""
    tensor = asked.inputs.add(name=name, datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend(values)
    return tensor


def put_raw(asked, name, datatype, shape, content):
    """Add an input whose elements are raw."""
    tensor = asked.inputs.add(name=name, datatype=datatype, shape=shape)
    asked.raw_input_contents.append(content)
    return tensor


def elements(dtype, rows=1):
    """Return good elements for ``put``."""
    flat = [each for row in values_of(dtype, rows) for each in row]
    return [each.encode() for each in flat] if dtype == "str" else flat


# ------------------------------------------------------------ each datatype


def in_fields(dtype="", rows=1, *, shape=None, **changed):
    """Return a request with elements in fields; the input *dtype* is *changed*."""
    asked = Request(model_name="fields")
    for each in IN_FIELDS:
        good = {
            "datatype": DATATYPES[each],
            "values": elements(each, rows),
            "field": FIELDS[each],
            "shape": [rows, 2],
        }
        shaped = {"shape": shape} if shape is not None else {}
        put(asked, each, **(good | changed | shaped if each == dtype else good))
    return asked


def all_raw(dtype="", rows=1, **changed):
    """Return a request with raw elements; the input *dtype* is *changed*."""
    asked = Request(model_name="everything")
    for each in DTYPES:
        good = {
            "datatype": DATATYPES[each],
            "shape": [rows, 2],
            "content": packed(each, values_of(each, rows)),
        }
        put_raw(asked, each, **(good | changed if each == dtype else good))
    return asked


def good_tensors():
    for rows in (1, 3, 8):
        yield f"fields {rows}", in_fields(rows=rows)
        yield f"raw {rows}", all_raw(rows=rows)
    for dtype in IN_FIELDS:
        asked = in_fields(rows=2)
        asked.outputs.add(name=f"{dtype}_out")
        yield f"fields, only {dtype}", asked
    for dtype in DTYPES:
        asked = all_raw(rows=2)
        asked.outputs.add(name=f"{dtype}_out")
        yield f"raw, only {dtype}", asked


def bad_tensors():
    for dtype in IN_FIELDS:
        values = elements(dtype)
        other = "fp64_contents" if dtype in ("float32", "str") else "fp32_contents"
        yield f"too few {dtype}", in_fields(dtype, values=values[:1])
        yield f"too many {dtype}", in_fields(dtype, values=values * 2)
        yield f"none {dtype}", in_fields(dtype, values=[])
        yield f"other field {dtype}", in_fields(dtype, values=[1, 2], field=other)
    for dtype in DTYPES:
        content = packed(dtype, values_of(dtype, 1))
        other = "INT64" if dtype != "int64" else "INT32"
        yield f"raw short {dtype}", all_raw(dtype, content=content[:-1])
        yield f"raw long {dtype}", all_raw(dtype, content=content + b"\0")
        yield f"raw empty {dtype}", all_raw(dtype, content=b"")
        yield f"datatype {dtype}", all_raw(dtype, datatype=other)
    for name, shape in {
        "one axis": [2],
        "three axes": [1, 2, 1],
        "no axes": [],
        "no rows": [0, 2],
        "negative": [-1, 2],
        "other size": [1, 3],
        "other rows": [2, 2],
        "overflowing": [2**62, 2],
    }.items():
        yield f"{name} in fields", in_fields("int32", shape=shape)
        yield f"{name} raw", all_raw("int32", shape=shape)
    for dtype, values in {
        "int8": [1, 300],
        "int16": [1, -70_000],
        "uint8": [1, 256],
        "uint16": [1, 2**31],
    }.items():
        yield f"too large {dtype}", in_fields(dtype, values=values)
    yield "odd byte", all_raw("bool", content=b"\2\1")
    yield "not UTF-8 in fields", in_fields("str", values=[b"\xff", b""])
    yield "not UTF-8 raw", all_raw("str", content=b"\1\0\0\0\xff\0\0\0\0")


# ------------------------------------------------------------ numbers and texts


def numbers(values, shape=None, datatype="FP32", field="fp32_contents", raw=None, **members):
    """Return a request of the model ``total``."""
    asked = Request(model_name="total", **members)
    shape = shape or [1, len(values)]
    if raw is None:
        put(asked, "x", datatype, shape, values, field)
    else:
        put_raw(asked, "x", datatype, shape, raw)
    return asked


def texts(values, raw=None):
    """Return a request of the model ``simple_identity``."""
    asked = Request(model_name="simple_identity")
    if raw is None:
        put(asked, "INPUT0", "BYTES", [1, 16], values, "bytes_contents")
    else:
        put_raw(asked, "INPUT0", "BYTES", [1, 16], raw)
    return asked


def contents():
    yield "numbers", numbers([1, 2.5])
    yield "NaN", numbers([1, NAN])
    yield "infinity", numbers([INF, 1])
    yield "minus infinity", numbers([-INF])
    yield "both infinities", numbers([INF, -INF])
    yield "raw NaN", numbers([], [1, 2], raw=struct.pack("<2f", NAN, 1))
    yield "raw infinity", numbers([], [1, 2], raw=struct.pack("<2f", INF, 1))
    yield "largest", numbers([3.4028234663852886e38])
    yield "no elements", numbers([], [1, 0])
    yield "no elements, raw", numbers([], [1, 0], raw=b"")
    yield "other datatype", numbers([1, 2], datatype="FP64", field="fp64_contents")
    yield "half", numbers([], [1, 2], datatype="FP16", raw=bytes(4))
    yield "bfloat", numbers([], [1, 2], datatype="BF16", raw=bytes(4))
    yield "unknown datatype", numbers([1, 2], datatype="FLOAT")
    yield "no datatype", numbers([1, 2], datatype="")
    yield "many", numbers([], [1, 50_000], raw=np.ones(50_000, np.float32).tobytes())
    yield "more rows than a batch", numbers([1] * 9, [9, 1])
    yield "texts", texts([b"a", "ä".encode(), b""] + [b"x"] * 13)
    yield "long texts", texts([b"x" * 5000] * 16)
    yield "texts with NUL", texts([b"a\0b", b"\0"] * 8)
    yield "raw texts", texts([], struct.pack("<I", 1) + b"a" + bytes(60))
    yield "texts cut off", texts([], struct.pack("<I", 9) + b"a" + bytes(60))
    yield "raw texts with more behind them", texts([], bytes(64) + b"x")
    yield "too few texts", texts([b"a"])


# ------------------------------------------------------------ what surrounds the tensors


def pair(**members):
    """Return a request of the model ``simple``."""
    asked = Request(**{"model_name": "simple"} | members)
    for name in ("INPUT0", "INPUT1"):
        put(asked, name, "INT32", [1, 16], range(16), "int_contents")
    return asked


def changed(change, asked=None):
    """Return a request after *change*."""
    asked = pair() if asked is None else asked
    change(asked)
    return asked


def names():
    yield "id", pair(id="a b")
    yield "long id", pair(id="x" * 1000)
    yield "version", pair(model_version="1")
    yield "unknown version", pair(model_version="7")
    yield "version that is not a number", pair(model_version="x")
    yield "unknown model", pair(model_name="none")
    yield "no model", pair(model_name="")
    yield "nothing", Request()
    yield "no inputs", Request(model_name="simple")
    yield "missing input", changed(lambda asked: asked.inputs.pop())
    yield "input twice", changed(lambda asked: asked.inputs.append(asked.inputs[0]))
    yield "unknown input", changed(lambda asked: setattr(asked.inputs[1], "name", "z"))
    yield "input without name", changed(lambda asked: setattr(asked.inputs[1], "name", ""))
    yield (
        "one input more",
        changed(lambda asked: put(asked, "z", "INT32", [1, 16], range(16), "int_contents")),
    )
    yield "inputs in another order", changed(lambda asked: asked.inputs.reverse())
    yield "input without contents", changed(lambda asked: asked.inputs[1].ClearField("contents"))
    yield (
        "rows that differ",
        changed(
            lambda asked: (
                asked.inputs[1].shape.__setitem__(0, 2),
                asked.inputs[1].contents.int_contents.extend(range(16)),
            )
        ),
    )


def raw_counts():
    yield "raw and fields", changed(lambda asked: asked.raw_input_contents.extend([bytes(64)] * 2))
    for count in (1, 3):
        asked = Request(model_name="simple")
        for name in ("INPUT0", "INPUT1"):
            asked.inputs.add(name=name, datatype="INT32", shape=[1, 16])
        asked.raw_input_contents.extend([bytes(64)] * count)
        yield f"raw contents for {count} of two", asked
    asked = pair()
    asked.inputs[1].ClearField("contents")
    asked.raw_input_contents.append(bytes(64))
    yield "one of two raw", asked


def wanting(*outputs, asked=None):
    """Return a request for *outputs*, each a name and its parameters."""
    asked = pair() if asked is None else asked
    for name, parameters in outputs:
        output = asked.outputs.add(name=name)
        for key, (choice, value) in parameters.items():
            setattr(output.parameters[key], choice, value)
    return asked


def outputs():
    yield "first output", wanting(("OUTPUT0", {}))
    yield "second output", wanting(("OUTPUT1", {}))
    yield "outputs in another order", wanting(("OUTPUT1", {}), ("OUTPUT0", {}))
    yield "output twice", wanting(("OUTPUT0", {}), ("OUTPUT0", {}))
    yield "unknown output", wanting(("z", {}))
    yield "one known output", wanting(("OUTPUT0", {}), ("z", {}))
    yield "output without name", wanting(("", {}))
    yield "output parameter", wanting(("OUTPUT0", {"a": ("string_param", "b")}))
    for count in (-1, 0, 1, 3, 16, 99):
        yield f"classes {count}", wanting(("OUTPUT0", {"classification": ("int64_param", count)}))
    yield (
        "classes of one of two",
        wanting(("OUTPUT0", {"classification": ("int64_param", 2)}), ("OUTPUT1", {})),
    )
    yield "classes in a text", wanting(("OUTPUT0", {"classification": ("string_param", "2")}))
    total = numbers([1, 2.5])
    yield (
        "classes of fractions",
        wanting(("y", {"classification": ("int64_param", 1)}), asked=total),
    )
    words = texts([b"1"] * 16)
    yield (
        "classes of texts",
        wanting(("OUTPUT0", {"classification": ("int64_param", 1)}), asked=words),
    )
    region = {"shared_memory_region": ("string_param", "r")}
    yield "output in shared memory", wanting(("OUTPUT0", region))


def with_parameter(key, choice, value, *, of_input=False):
    asked = pair()
    owner = asked.inputs[0] if of_input else asked
    setattr(owner.parameters[key], choice, value)
    return asked


def parameters():
    for choice, value in {
        "bool_param": True,
        "int64_param": 7,
        "string_param": "x",
        "double_param": 1.5,
        "uint64_param": 2**63,
    }.items():
        yield f"parameter {choice}", with_parameter("a", choice, value)
        yield f"input parameter {choice}", with_parameter("a", choice, value, of_input=True)
    yield "parameter without value", changed(lambda asked: asked.parameters["a"])
    yield (
        "parameter final",
        with_parameter("triton_enable_empty_final_response", "bool_param", True),
    )
    yield "parameter binary", with_parameter("binary_data_output", "bool_param", True)
    yield "parameter priority", with_parameter("priority", "uint64_param", 1)
    yield "parameter priority as text", with_parameter("priority", "string_param", "1")
    yield "parameter timeout", with_parameter("timeout", "int64_param", 10_000_000)
    yield "parameter sequence", with_parameter("sequence_id", "int64_param", 3)
    yield "parameter of a header", with_parameter("triton_x", "string_param", "1")
    yield (
        "input in shared memory",
        with_parameter("shared_memory_region", "string_param", "r", of_input=True),
    )


# ------------------------------------------------------------ questions


def questions():
    yield GrpcCase("ServerLive", message_class("ServerLiveRequest")(), "ServerLive")
    yield GrpcCase("ServerReady", message_class("ServerReadyRequest")(), "ServerReady")
    yield GrpcCase("ServerMetadata", message_class("ServerMetadataRequest")(), "ServerMetadata")
    for method in ("ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"):
        kind = message_class(f"{method}Request")
        for name, version in (
            *(("total", ""), ("total", "1"), ("total", "7"), ("total", "x")),
            *(("none", ""), ("none", "1"), ("", ""), ("simple", "")),
        ):
            asked = kind(name=name, version=version)
            yield GrpcCase(f"{method} {name!r} {version!r}", asked, method)


def streamed():
    for case in (
        *("numbers", "id", "unknown model", "unknown output", "parameter final", "too few int32"),
        *("no inputs", "version that is not a number"),
    ):
        found = next(each for each in inferences() if each.name == case)
        yield GrpcCase(f"stream: {case}", found.message, "ModelStreamInfer")
    for name, message in {
        "unknown model with an id": pair(id="a b", model_name="none"),
        "too few numbers with an id": numbers([1], [1, 2], id="a b"),
        "no model with an id": Request(id="a b"),
    }.items():
        yield GrpcCase(f"stream: {name}", message, "ModelStreamInfer")


def inferences():
    parts = (good_tensors, bad_tensors, contents, names, raw_counts, outputs, parameters)
    return [GrpcCase(*each) for part in parts for each in part()]


def all_messages():
    """Return every call; their names are unique."""
    return [*inferences(), *questions(), *streamed()]
