# SPDX-License-Identifier: Apache-2.0
"""The examples of the guides behave as the guides say."""

import json
import re
import tomllib
from logging import getLogger
from pathlib import Path

import msgspec
import numpy as np
import pytest

from servekit import Context, Service, errors
from servekit.plugins import create_plugin_manager
from servekit.worker.boot.assembly import assemble, current_of, loop_of
from servekit.worker.codecs.msgpack import codec as msgpack_codec
from servekit.worker.codecs.table import CodecTable
from servekit.worker.serving.loaded import Loaded
from tests.worker.worker_process import item

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "writing-a-service.md").read_text()
API = (DOCS / "http-api.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown():
    """Yield each request of the guide with its answer, the service and the ``model.toml`` above."""
    declared: dict = {}
    source = ""
    for language, text in BLOCK.findall(GUIDE):
        if language == "toml":
            declared = tomllib.loads(text)
        elif language == "python":
            source = text
        else:
            for line in text.splitlines():
                yield pytest.param(source, declared, *line.split(" -> "), id=line)
            declared = {}


def loaded_from(source: str, declared, tmp_path) -> Loaded:
    """Run *source* and return the service that it defines."""
    names = {"__name__": "shown"}
    exec(compile(source, "shown.py", "exec"), names)
    classes = [
        value for value in names.values() if isinstance(value, type) and issubclass(value, Service)
    ]
    np.save(tmp_path / "weights.npy", [1, 2, 3])
    table = CodecTable(create_plugin_manager(discover=False))
    service = next(found for found in classes if found is not Service)()
    loop = loop_of(service)
    current = current_of(service, table, loop)
    context = Context(
        model="shown",
        version="1.0",
        directory=tmp_path,
        replica=0,
        max_batch_size=32,
        threads=1,
        options={},
        logger=getLogger("shown"),
        read_requests=current.requests,
    )
    run = _call if loop is None else loop.call
    run(service.load, context)
    run(service.warm_up)
    service.signature = declared.get("signature")
    return assemble(service, table, current, loop, has_rows=declared.get("rows", False))


def _call(method, *arguments):
    method(*arguments)


@pytest.mark.parametrize(("source", "declared", "request_text", "expected"), list(shown()))
def test_services_of_the_guide_answer_as_it_says(
    tmp_path, source, declared, request_text, expected
):
    loaded = loaded_from(source, declared, tmp_path)
    ((error, media_type, body),) = loaded.predictor.answer([item(request_text.encode())]).answers
    if loaded.loop is not None:
        loaded.loop.close()
    name, found = error or media_type, msgspec.json.decode(body)

    if name == "application/json":
        assert found["prediction"] == json.loads(expected)
    else:
        assert f"{name}: {found['detail']}".removesuffix(": ") == expected


def test_arrays_are_packed_as_the_api_guide_says():
    names = {}
    (source,) = (text for language, text in BLOCK.findall(API) if language == "python")
    exec(source, names)
    decoded = msgpack_codec.decode(names["body"], {})
    unpacked = names["msgpack"].unpackb(
        msgpack_codec.encode(np.arange(3.0)), ext_hook=names["unpack_array"]
    )

    assert decoded["image"].shape == (8, 8)
    assert unpacked.tolist() == [0, 1, 2]


def test_the_api_guide_has_every_status_with_its_title():
    rows = dict(re.findall(r"^\| (\d{3}) \| ([^|]+) \|", API, re.MULTILINE))
    kinds = [getattr(errors, name) for name in errors.__all__ if name[0].isupper()]
    for kind in kinds:
        if not issubclass(kind, errors.StartupError):
            assert kind.title in rows[str(kind.status)].split(", ")
