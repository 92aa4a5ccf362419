# SPDX-License-Identifier: Apache-2.0
"""How long the workers of an old version may go on with what they have."""

import itertools
from types import SimpleNamespace

import msgspec
import pytest

from servekit.settings import Settings
from servekit.supervisor.models.model_version import CLOSE_S, ModelVersion
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage
from servekit.supervisor.preparing.model_files import ModelFiles


def stage(name, predict_timeout_s, colocated=()):
    return PreparedStage(
        name=name,
        manifest=b"{}",
        replicas=1,
        max_batch_size=1,
        max_delay_s=0.0,
        predict_timeout_s=predict_timeout_s,
        load_timeout_s=1.0,
        environments=[{}],
        colocated=list(colocated),
    )


def limit_s(stages, *, front_ends=1, grace=0.0, **manifest):
    """Return after how long a retired version with these *stages* is killed."""
    prepared = PreparedModel(
        name="m",
        version="1",
        description="",
        source="/",
        directory="/",
        python="python",
        manifest=msgspec.json.encode(manifest),
        stages=stages,
        may_retry=False,
        size_bytes=0,
        digest="",
    )
    waits = []
    loop = SimpleNamespace(call_later=lambda wait_s, _call: waits.append(wait_s))
    host = SimpleNamespace(settings=Settings(front_ends=front_ends, grace=grace), loop=loop)
    source, numbered = VersionSource("/"), (itertools.count(), "m0r")
    files = ModelFiles(prepared)
    ModelVersion(host, prepared, files, source, {}, numbered, lambda: None).retire()
    return waits[0] - CLOSE_S


STAGES = [stage("a", 10.0), stage("b", 20.0, [stage("c", 20.0)])]
CHAIN = [{"stage": "a"}, {"stage": "b"}, {"stage": "c"}]
EACH = [{"stage": "a"}, {"stage": "b", "each": True}]
TWICE = {"/v1/x": {"steps": [{"stage": "a"}, {"stage": "a"}, {"model": "other"}]}}


@pytest.mark.parametrize(
    ("expected", "stages", "given"),
    [
        pytest.param(10, [stage("", 10.0)], {}, id="one batch"),
        pytest.param(30, [stage("", 10.0)], {"front_ends": 3}, id="one batch of each front-end"),
        pytest.param(50, STAGES, {"pipeline": CHAIN}, id="all steps of a pipeline"),
        pytest.param(70, STAGES, {"pipeline": EACH}, id="a list is read and put together"),
        pytest.param(40, STAGES, {"routes": TWICE}, id="a stage twice, and another model"),
        pytest.param(90, STAGES, {"grace": 90.0, "pipeline": CHAIN}, id="a stream: the grace"),
    ],
)
def test_an_old_version_may_finish_what_it_has(expected, stages, given):
    assert limit_s(stages, **given) == expected
