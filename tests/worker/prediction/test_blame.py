# SPDX-License-Identifier: Apache-2.0
"""An answer that cannot be written is the client's fault only if its input cannot be either."""

import io
import json

import msgpack
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from servekit.errors import RequestError, error_class
from servekit.ipc.batches import VALUES
from servekit.worker.codecs.arrays import DTYPES
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from tests.worker.batches import answer, echo, loaded, service_of
from tests.worker.worker_process import item

ACCEPTED = [
    *("", "application/json", "application/msgpack", "application/x-npy", "text/plain"),
    *("application/octet-stream", "image/png", "application/msgpack, text/plain;q=0.5"),
]
FLOATS = st.floats()
TEXTS = st.text(st.characters(), max_size=8)
NUMBERS = st.integers(-(2**80), 2**80)


def values(leaves, keys):
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
AS_JSON = values(st.none() | st.booleans() | NUMBERS | FLOATS.filter(np.isfinite) | TEXTS, TEXTS)
ARRAYS = arrays.arrays(
    st.sampled_from(list(DTYPES.values())), arrays.array_shapes(min_dims=0, min_side=0, max_side=3)
)
MOMENTS = st.builds(msgpack.Timestamp, st.integers(-(2**62), 2**62), st.integers(0, 10**9 - 1))
AS_MSGPACK = values(st.integers(-(2**63), 2**64 - 1) | FLOATS | PLAIN | st.binary(), PLAIN)
PREDICTOR = loaded(service_of(echo)).predictor


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


BODIES = (
    st.tuples(AS_JSON.map(lambda value: json.dumps(value).encode()), st.just("application/json"))
    | st.tuples((AS_MSGPACK | MOMENTS).map(msgpack.packb), st.just("application/msgpack"))
    | st.tuples(ARRAYS.map(msgpack_codec.encode), st.just("application/msgpack"))
    | st.tuples(ARRAYS.map(npy), st.just("application/x-npy"))
    | st.tuples(st.binary(), st.sampled_from(["text/plain", "image/png"]))
)  # fmt: skip


@given(BODIES, st.sampled_from(ACCEPTED))
@example((msgpack.packb(float("nan")), "application/msgpack"), "application/json")
@example((rb'{"\ud800": 1}', "application/json"), "application/msgpack")
@example((b"18446744073709551616", "application/json"), "application/msgpack")
def test_an_input_that_comes_back_is_never_a_500(body, accept):
    ((error, _, _),) = PREDICTOR.answer([item(*body, accept)]).answers

    assert not error or issubclass(error_class(error), RequestError)


@pytest.mark.parametrize("sent", [b"[1, 2]", b'"\\ud83d\\ude00"', b"{}"])
@pytest.mark.parametrize(
    ("output", "accept"),
    [(float("nan"), ""), ({"a": np.float32([np.inf])}, ""), ("\ud800", "application/msgpack"),
     (2**64, "application/msgpack"), (object(), ""), ("\udfff", "text/plain")],
    ids=["NaN", "infinity", "surrogate", "long integer", "any object", "surrogate as text"],
)  # fmt: skip
def test_what_a_service_made_itself_is_its_own_fault(sent, output, accept):
    service = service_of(lambda self, batch: [output] * len(batch))

    assert answer(service, sent, accept=accept)[0] == "ResultNotEncodable"


@pytest.mark.parametrize("sent", [b'"a"', b"5", b"{}"])
def test_an_output_that_the_next_step_cannot_take_is_the_fault_of_the_service(sent):
    service = service_of(lambda self, batch: ["no list"] * len(batch))
    request = item(sent, "application/json", VALUES)
    ((error, _, _),) = loaded(service).predictor.answer([request]).answers

    assert error == "ResultNotEncodable"
