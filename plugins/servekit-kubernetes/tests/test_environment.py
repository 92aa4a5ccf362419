# SPDX-License-Identifier: Apache-2.0
"""Variables that a server would refuse, or that contradict a manifest, are refused."""

import pytest
from servekit_kubernetes.environment import CONFLICTS, changes_workers, check_environment
from servekit_kubernetes.kserve import STOP_S, kserve_files

from servekit.errors import StartupError
from servekit.settings import options

from .samples import plan


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"SERVEKIT_PORT": "9000"}, "--env SERVEKIT_PORT: the probes and the Services ask for"),
        ({"SERVEKIT_BIND": "unix:/tmp/s"}, "--env SERVEKIT_BIND: the probes"),
        (
            {"SERVEKIT_TLS_CERTIFICATE": "/tls/tls.crt"},
            "--env SERVEKIT_TLS_CERTIFICATE: the",
        ),
        (
            {"SERVEKIT_PREDICT_TOKEN": "s3cret"},
            "--env SERVEKIT_PREDICT_TOKEN: a token belongs in",
        ),
        ({"SERVEKIT_MODELS": "a.mar"}, "--env SERVEKIT_MODELS: the command of the container names"),
        ({"SERVEKIT_QUEU": "7"}, "--env: unknown variable 'SERVEKIT_QUEU', did you mean"),
        ({"SERVEKIT_GRACE": "1m"}, "--env: SERVEKIT_GRACE: '1m' is not a number"),
        ({"SERVEKIT_GRACE": "1e9"}, "--env: SERVEKIT_GRACE: 1e9 is above 86400"),
        ({"SERVEKIT_DEV": "true"}, "--env: dev: responses contain tracebacks"),
    ],
)
@pytest.mark.parametrize("has_models", [True, False])
def test_a_contradiction_is_refused_for_deployments_and_for_kserve(env, complaint, has_models):
    with pytest.raises(StartupError) as caught:
        check_environment(env, has_models=has_models)

    assert str(caught.value).startswith(complaint)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("env", "is_for_models", "is_for_kserve"),
    [
        ({"SERVEKIT_INSTALL_REQUIREMENTS": "true"}, False, True),
        ({"SERVEKIT_CACHE_DIR": "/cache"}, False, True),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "0.0.0.0:9001"}, True, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "[::]:9001"}, True, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "9001"}, False, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "127.0.0.1:9001"}, False, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "0.0.0.0:0"}, False, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": "0.0.0.0:8080"}, False, False),
        ({"SERVEKIT_PLUGIN_OIP_GRPC": ""}, True, True),
        ({"SERVEKIT_GRACE": "120"}, True, False),
        ({"SERVEKIT_DRAIN_DELAY": "26"}, True, False),
        ({"SERVEKIT_DRAIN_DELAY": "15", "SERVEKIT_GRACE": "10"}, True, True),
        ({"SERVEKIT_PORT": "", "OTHER": "SERVEKIT"}, True, True),
    ],
)
def test_other_variables_depend_on_who_runs_the_pod(env, is_for_models, is_for_kserve):
    assert is_taken(env, has_models=True) == is_for_models
    assert is_taken(env, has_models=False) == is_for_kserve


def is_taken(env, *, has_models):
    try:
        check_environment(env, has_models=has_models)
    except StartupError:
        return False
    return True


@pytest.mark.parametrize(("env", "grace"), [({}, "20"), ({"SERVEKIT_DRAIN_DELAY": "15.5"}, "9.5")])
def test_kserve_gives_the_grace_period_what_the_drain_delay_leaves(env, grace):
    text = kserve_files(plan(workers=0, env=env))["kserve/runtime.yaml"]

    assert f"name: SERVEKIT_GRACE\n          value: '{grace}'\n" in text
    assert float(grace) + float(env.get("SERVEKIT_DRAIN_DELAY", 5)) < STOP_S


@pytest.mark.parametrize(
    ("env", "is_changed"),
    [
        ({}, False),
        ({"SERVEKIT_QUEUE": "7", "SERVEKIT_SET": "a.batching.max_batch_size=4"}, False),
        ({"SERVEKIT_REPLICAS": "4"}, True),
        ({"SERVEKIT_SET": "a.replicas=8"}, True),
        ({"SERVEKIT_SET": "a.ranks=2"}, True),
        ({"SERVEKIT_SET": "a.stages.one.replicas=8"}, True),
    ],
)
def test_another_number_of_workers_is_seen(env, is_changed):
    assert changes_workers(check_environment(env, has_models=True)) == is_changed


def test_what_is_refused_is_a_setting():
    known = {option.variable for option in options()}

    assert {name for name in CONFLICTS if not name.endswith("_TOKEN")} <= known
