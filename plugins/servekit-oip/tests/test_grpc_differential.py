# SPDX-License-Identifier: Apache-2.0
"""The same messages of gRPC to servekit and to Triton: the same answers, or the same status.

Texts of errors are not compared, nor names of servers. ``DIFFERENCES`` lists what else differs, and
why; what it lists has to differ. ``docs/oip.md`` has the same reasons for users.
"""

import json
import os
import re
import socket
import tomllib
from pathlib import Path

import numpy as np
import pytest

from servekit.testing import ServedModel

from .oip_models import write_models
from .triton_server import running_triton

pytest.importorskip("grpc_health.v1", reason="pip install 'servekit-oip[grpc]'")

import grpc
from google.protobuf.json_format import MessageToDict
from servekit_oip.grpc.messages import SERVICE, message_class

from .grpc_differential_messages import SHARED, all_messages

PACKAGES = os.environ.get("OIP_TRITON_PACKAGES", "")
needs_triton = pytest.mark.skipif(
    not PACKAGES, reason="OIP_TRITON_PACKAGES: the site-packages of nvidia-pytriton"
)
pytestmark = [pytest.mark.slow, pytest.mark.e2e]
WAIT_S = 120.0
MESSAGES = all_messages()
REFUSED = grpc.StatusCode.INVALID_ARGUMENT
#: Triton 2.51 itself ends with these: they are sent to servekit only, which has to refuse them
FATAL = re.compile("overflowing .*|classes of texts")
#: members of descriptions that mean the same in both servers
TOLD = ("name", "versions", "inputs", "outputs", "live", "ready")
#: patterns of names, and the reason
DIFFERENCES = {
    "too large .*": "a number that does not fit is refused, and does not wrap around",
    "odd byte": "numpy and Triton disagree about what such a truth value means",
    "not UTF-8 .*": "the str of a signature is UTF-8",
    "more rows than a batch": "a request of many rows is split",
    "version that is not a number|Model.* 'total' 'x'": "any text can name a version",
    "no model|nothing": "a request that names no model is not valid",
    "ModelStatistics ('none' .*|'total' '7')": "an unknown model is one, whatever the call",
    "raw contents for 3 of two": "no content is dropped without an error",
    "outputs in another order|output twice": "outputs are sent as they are asked for",
    "classes 0": "0 means all elements, as over HTTP",
    "parameter (uint64_param|without value|priority as text|of a header)": (
        "parameters without a meaning here are ignored"
    ),
}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Return a channel to servekit."""
    store = write_models(tmp_path_factory.mktemp("ours") / "store", tuple(SHARED), SHARED)
    (store / "simple" / "labels.txt").unlink()
    port = free_port()
    settings = {"model_store": str(store), "plugin": [f"oip.grpc=127.0.0.1:{port}"]}
    with (
        ServedModel(store / "total", **settings) as model,
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        model.wait_ready()
        yield channel


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Return a channel to Triton."""
    signatures = {name: tomllib.loads(each[2])["signature"] for name, each in SHARED.items()}
    port, scratch = free_port(), tmp_path_factory.mktemp("triton")
    with (
        running_triton(PACKAGES, scratch, signatures, port),
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield channel


def answer(channel, case):
    """Return what a server says to *case*, or its status."""
    path, content = f"/{SERVICE}/{case.method}", case.message.SerializeToString()
    response = message_class(f"{case.method}Response").FromString
    try:
        if case.method == "ModelStreamInfer":
            found = channel.stream_stream(path)(iter([content]), timeout=WAIT_S)
            return [streamed(response(each)) for each in found]
        found = response(channel.unary_unary(path)(content, timeout=WAIT_S))
    except grpc.RpcError as error:
        return error.code().name
    return inferred(found) if case.method == "ModelInfer" else told(MessageToDict(found))


def streamed(found):
    if found.error_message:
        return "an error", found.infer_response.id
    return inferred(found.infer_response)


def inferred(found):
    """Return what is compared of an inference."""
    outputs = [(each.name, each.datatype, list(each.shape)) for each in found.outputs]
    pairs = zip(outputs, found.raw_output_contents, strict=True)
    contents = [shown(datatype, content) for (_, datatype, _), content in pairs]
    finals = {name: each.bool_param for name, each in found.parameters.items()}
    return found.model_name, found.model_version, found.id, outputs, contents, finals


def shown(datatype, content):
    """Return the elements; NaN is not equal to itself."""
    return [str(each) for each in np.frombuffer(content)] if datatype == "FP64" else content


def told(found):
    """Return what of a description has a meaning in both servers."""
    found = found.get("config", found)
    if "modelStats" in found:
        return sorted((each["name"], each["version"]) for each in found["modelStats"])
    if "platform" not in found and "backend" not in found:
        found.pop("name", None)  # of the server
    sides = [
        [each[key] for key in ("name", "dataType", "dims")]
        for side in ("input", "output")
        for each in found.get(side, ())
    ]
    return {name: found[name] for name in TOLD if name in found}, found.get("maxBatchSize"), sides


def test_there_are_many_messages_with_names():
    names = [case.name for case in MESSAGES]

    assert len(names) >= 120
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def differences(ours, theirs):
    """Return how the answers differ, by the names of the messages."""
    both = [each for each in MESSAGES if not FATAL.fullmatch(each.name)]
    found = {each.name: (answer(ours, each), answer(theirs, each)) for each in both}
    if report := os.environ.get("OIP_GRPC_DIFFERENTIAL_REPORT"):
        Path(report).write_text(json.dumps(found, indent=1, default=repr))
    return {
        name: f"{mine!r:.400} | Triton {other!r:.400}"
        for name, (mine, other) in found.items()
        if mine != other
    }


@needs_triton
def test_answers_differ_only_where_we_know_why(differences):
    unknown = {
        name: how
        for name, how in differences.items()
        if not any(re.fullmatch(pattern, name) for pattern in DIFFERENCES)
    }

    assert unknown == {}


@needs_triton
def test_every_known_difference_is_one(differences):
    same = [
        pattern
        for pattern in DIFFERENCES
        if not any(re.fullmatch(pattern, name) for name in differences)
    ]

    assert same == []


def test_messages_that_end_triton_are_refused(ours):
    fatal = [each for each in MESSAGES if FATAL.fullmatch(each.name)]

    assert {answer(ours, each) for each in fatal} == {REFUSED.name}
