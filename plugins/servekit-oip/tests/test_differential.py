# SPDX-License-Identifier: Apache-2.0
"""The same requests to servekit and to Triton: the same class of status, and the same answers.

Texts of errors are not compared, nor names of servers. ``DIFFERENCES`` lists what else differs, and
why; what it lists has to differ. ``docs/oip.md`` has the same reasons for users.
"""

import json
import math
import os
import re
import tomllib
from http.client import HTTPConnection
from pathlib import Path

import pytest

from servekit.testing import ServedModel

from .differential_requests import LENGTH, all_requests
from .oip_models import MODELS, write_models
from .triton_server import running_triton

PACKAGES = os.environ.get("OIP_TRITON_PACKAGES", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(
        not PACKAGES, reason="OIP_TRITON_PACKAGES: the site-packages of nvidia-pytriton"
    ),
]
SHARED = ("simple", "simple_string", "simple_identity", "total", "everything", "four", "complete")
REQUESTS = all_requests()
#: Triton 2.51 itself ends with these: they are sent to servekit only, which has to answer with 400
FATAL = re.compile("overflowing .*|classes of texts")
#: how Triton begins what it says about a request that it cannot read
MALFORMED = (
    "Unable to parse",
    "attempt to get members",
    "failed to parse",
    "failed to get request",
    "Unable to set",
)
#: patterns of names, and the reason
DIFFERENCES = {
    "(flat|nested) float16 .*|as JSON float16": "JSON holds every number of FP16",
    "odd number (int8|int32)": "a number that does not fit is refused, and does not wrap around",
    "odd number float32": "a number that does not fit is refused, and does not become infinite",
    "infinity": "Infinity is not JSON",
    "odd byte": "numpy and Triton disagree about what such a truth value means",
    "not UTF-8": "the str of a signature is UTF-8",
    "more rows than a batch": "a request of many rows is split",
    "null as (id|parameters|outputs)": "clients write null for what they leave out",
    "parameter (sequence_id -1|sequence_start 1|priority '1'|timeout '1'|else .*|triton_else .*)": (
        "parameters without a meaning here are ignored"
    ),
    "outputs (in another order|twice)": "outputs are sent as they are asked for",
    "(gzip|deflate) (that is none|with more behind it)": "what cannot be decoded is refused",
    "length (signed|a fraction)": "a length has nothing but digits",
    "coding br": "the client can choose another coding",
    "POST .*t%6ftal.*": "names in paths are decoded",
    "POST .*/versions/01/infer": "any text can name a version",
    "HEAD metadata": "HEAD is answered where GET is",
    "empty body": "it is not JSON, and nothing says that it is a raw tensor",
}


@pytest.fixture(scope="module")
def triton(tmp_path_factory):
    """Return the address of a Triton with the models that both have."""
    signatures = {name: tomllib.loads(MODELS[name][2])["signature"] for name in SHARED}
    with running_triton(PACKAGES, tmp_path_factory.mktemp("triton"), signatures) as address:
        yield address


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Return the address of a servekit with the same models."""
    store = write_models(tmp_path_factory.mktemp("ours") / "store", SHARED)
    (store / "simple" / "labels.txt").unlink()
    with ServedModel(store / "total", model_store=str(store)) as model:
        yield model.wait_ready().url.partition("://")[2]


def send(address, request):
    """Return status, the length of the JSON or ``None``, and the body."""
    connection = HTTPConnection(address, timeout=120)
    method = request.method or ("GET" if request.body is None else "POST")
    try:
        connection.request(method, request.path, request.body, request.headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    length = response.headers.get(LENGTH)
    return response.status, int(length) if length else None, body


def plain(status, length, body):
    """Return what is compared of an answer."""
    if status >= 400:
        return {"has error": isinstance(json.loads(body or b"{}").get("error"), str)}
    text, rest = (body, b"") if length is None else (body[:length], body[length:])
    found = json.loads(text) if text.strip() else {}
    return told(found), rest


def told(found):
    """Return what of a JSON answer has a meaning in both servers."""
    if not isinstance(found, dict):
        return found
    if "outputs" in found and "platform" not in found:
        return found.get("id", ""), [output_of(each) for each in found["outputs"]]
    if "model_name" in found:  # of a generation
        return found
    if "platform" in found and "inputs" in found:
        return {key: found[key] for key in ("name", "versions", "inputs", "outputs")}
    if "max_batch_size" in found:
        sides = [
            [each[key] for key in ("name", "data_type", "dims")]
            for side in ("input", "output")
            for each in found[side]
        ]
        return found["name"], found["max_batch_size"], sides
    if "model_stats" in found:
        return sorted((each["name"], each["version"]) for each in found["model_stats"])
    return {}


def output_of(output):
    data = [round_(each) for each in output.get("data", [])]
    size = output.get("parameters", {}).get("binary_data_size")
    return output["name"], output["datatype"], output["shape"], data, size


def round_(value):
    """Forget how many digits of a number are written."""
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value


def compare(ours, theirs):
    """Return how two answers differ, or ``None``.

    Triton calls it an error of its own, 500, when it cannot read a request: that is our 400.
    """
    if theirs[0] == 500 and json.loads(theirs[2])["error"].startswith(MALFORMED):
        return None if ours[0] == 400 else f"status {ours[0]} for what Triton cannot read"
    if ours[0] // 100 != theirs[0] // 100:
        return f"status {ours[0]}, Triton {theirs[0]}: {ours[2][:200]!r} | {theirs[2][:200]!r}"
    mine, other = plain(*ours), plain(*theirs)
    return None if mine == other or ours[0] >= 400 else f"{mine!r:.400} | Triton {other!r:.400}"


def test_there_are_many_requests_with_names():
    names = [request.name for request in REQUESTS]

    assert len(names) >= 300
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module")
def differences(ours, triton):
    """Return how the answers differ, by the names of the requests."""
    both = [each for each in REQUESTS if not FATAL.fullmatch(each.name)]
    found = {each.name: compare(send(ours, each), send(triton, each)) for each in both}
    if report := os.environ.get("OIP_DIFFERENTIAL_REPORT"):
        Path(report).write_text(json.dumps(found, indent=1))
    return {name: how for name, how in found.items() if how}


def test_answers_differ_only_where_we_know_why(differences):
    unknown = {
        name: how
        for name, how in differences.items()
        if not any(re.fullmatch(pattern, name) for pattern in DIFFERENCES)
    }

    assert unknown == {}


def test_every_known_difference_is_one(differences):
    same = [
        pattern
        for pattern in DIFFERENCES
        if not any(re.fullmatch(pattern, name) for name in differences)
    ]

    assert same == []


def test_requests_that_end_triton_are_refused(ours):
    fatal = [each for each in REQUESTS if FATAL.fullmatch(each.name)]

    assert {send(ours, each)[0] for each in fatal} == {400}


def test_errors_are_objects_with_a_text(ours):
    for request in REQUESTS:
        status, _, body = send(ours, request)
        if status >= 400:
            assert list(json.loads(body)) == ["error"], request.name
