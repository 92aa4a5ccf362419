# SPDX-License-Identifier: Apache-2.0
"""Checks of settings that are valid, and probably not what their operator wants."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from servekit_archiver import Manifest
from servekit_archiver.cli.output import human_bytes

from servekit.cli.doctor.setup import Check, Setup
from servekit.cli.model.manifest import manifest_of
from servekit.errors import StartupError
from servekit.extension.checks import Diagnosis
from servekit.settings.models import ModelSource, deployments_of, model_sources
from servekit.settings.tokens import read_tokens
from servekit.supervisor.models.saved_models import names_loaded
from servekit.supervisor.operations.state_file import read_state
from servekit.supervisor.os.resources import usable_cores

__all__ = ["CONFIGURATION_CHECKS"]

PROXY_S: Final = 60.0  #: how long nginx, and the load balancers of AWS, wait for a response
POD_GRACE_S: Final = 30.0  #: terminationGracePeriodSeconds of Kubernetes


def models(setup: Setup) -> Iterator[Diagnosis]:
    """Read every model, and compare threads with cores and batches with delays."""
    try:
        loaded = names_loaded(read_state(setup.settings.state_file))
        sources = model_sources(setup.settings, loaded, may_be_none=True)
    except StartupError as error:
        text = str(error).removeprefix("models: ")  # the check is called so
        yield Diagnosis(severity="error", text=text, meaning="The server does not start.")
        return
    threads = 0
    for source in sources:
        path = Path(source.path)
        if source.is_url or not path.exists():  # a plugin opens it, or it is FILE:CLASS
            continue
        try:
            manifest = manifest_of(path, setup.settings.cache_dir)
        except StartupError as error:
            text = "; ".join(str(error).splitlines())
            yield Diagnosis(severity="error", text=text, meaning="The model is not served.")
            continue
        threads += _threads(setup, source, manifest)
        yield from _batching(manifest)
    cores = usable_cores()
    if threads > cores:
        yield Diagnosis(
            severity="warning",
            text=f"threads x replicas of the models are {threads}, and there are {cores} cores",
            meaning="Threads wait for each other: every request is slower, and the slowest most.",
            fix="lower threads or replicas: --set NAME.threads=1",
        )


def _threads(setup: Setup, source: ModelSource, manifest: Manifest) -> int:
    """Return how many threads the operator gives the model; 0 if it takes its share."""
    threads, replicas = 0, manifest.worker.replicas
    for each in deployments_of(setup.settings, source.name or manifest.name):
        threads = each.threads or threads
        if isinstance(each.replicas, int) and each.replicas:
            replicas = each.replicas
    return threads * replicas


def _batching(manifest: Manifest) -> Iterator[Diagnosis]:
    batching = manifest.batching
    if batching.max_delay_ms and batching.max_batch_size == 1:
        yield Diagnosis(
            severity="warning",
            text=f"{manifest.name}: max_delay_ms is {batching.max_delay_ms:g}, and max_batch_size"
            " is 1",
            meaning="There is nothing to wait for: the delay has no effect.",
            fix="set max_batch_size under [batching] of model.toml, or remove max_delay_ms",
        )


def memory(setup: Setup) -> Iterator[Diagnosis]:
    """Compare the memory for bodies with the memory that there is."""
    settings, limit = setup.settings, setup.memory_limit
    bodies = settings.front_ends * max(settings.queue_memory, settings.max_body)
    if bodies > limit / 2:
        yield Diagnosis(
            severity="warning",
            text=f"front-ends may hold {human_bytes(bodies)} of waiting bodies, and the limit of"
            f" memory is {human_bytes(limit)}",
            meaning="Under load the kernel may kill the server before it refuses requests.",
            fix="lower --queue-memory, --max-body or --front-ends",
        )


def access(setup: Setup) -> Iterator[Diagnosis]:
    """Look for addresses that others can reach, without tokens or without TLS."""
    settings, public = setup.settings, setup.public
    try:
        tokens = read_tokens(settings, setup.environment)
    except (StartupError, OSError):
        return  # the check of secrets says so
    if not public or settings.tls_certificate:
        return
    if tokens.predict:
        yield Diagnosis(
            severity="warning",
            text=f"tokens are sent over plain HTTP to {public[0]}",
            meaning="Anybody who sees the connection can use them.",
            fix="--tls-certificate and --tls-key, or listen on loopback behind a proxy with TLS",
        )
    elif not settings.tls_client_ca:
        yield Diagnosis(
            severity="info",
            text=f"everybody who can reach {public[0]} can predict",
            meaning="That is fine behind a proxy or in a network of your own.",
            fix="--predict-token-file, or the plugin servekit-apikeys",
        )


def timeouts(setup: Setup) -> Iterator[Diagnosis]:
    """Compare timeouts with those of proxies and of Kubernetes."""
    settings = setup.settings
    if settings.predict_timeout > PROXY_S:
        yield Diagnosis(
            severity="info",
            text=f"predict_timeout is {settings.predict_timeout:.12g} s, and proxies commonly wait"
            f" {PROXY_S:g} s",
            meaning="The proxy answers 504 first, and the prediction runs on for nobody.",
            fix=f"proxy_read_timeout {settings.predict_timeout + 5:.12g}s; in nginx",
        )
    if 0 < settings.keep_alive < PROXY_S:
        yield Diagnosis(
            severity="info",
            text=f"keep_alive is {settings.keep_alive:g} s, and proxies commonly keep connections"
            f" {PROXY_S:g} s",
            meaning="A proxy may send a request on a connection that is being closed, and"
            " answer 502.",
            fix="--keep-alive 75",
        )
    if "KUBERNETES_SERVICE_HOST" in setup.environment:
        yield from _pod(settings.drain_delay, settings.grace)


def _pod(drain_delay_s: float, grace_s: float) -> Iterator[Diagnosis]:
    if not drain_delay_s:
        yield Diagnosis(
            severity="warning",
            text="drain_delay is 0 in Kubernetes",
            meaning="Requests are still sent to a pod for seconds after it was told to end.",
            fix="--drain-delay 5",
        )
    if drain_delay_s + grace_s >= POD_GRACE_S:
        yield Diagnosis(
            severity="info",
            text=f"drain_delay and grace are {drain_delay_s + grace_s:.12g} s, and Kubernetes kills"
            f" a pod after {POD_GRACE_S:g} s unless told otherwise",
            meaning="Requests in flight may be cut off.",
            fix=f"terminationGracePeriodSeconds: {drain_delay_s + grace_s + 5:.12g}",
        )


CONFIGURATION_CHECKS: Final[Iterable[Check]] = (
    Check("models", "whether models can be read; threads, batches", models),
    Check("memory for bodies", "sizes of bodies and queues against the memory", memory),
    Check("access", "addresses, tokens and TLS", access),
    Check("timeouts", "timeouts against those of proxies and Kubernetes", timeouts),
)
