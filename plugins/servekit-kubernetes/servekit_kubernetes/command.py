# SPDX-License-Identifier: Apache-2.0
"""``servekit kube render``: writes the files."""

import argparse
import json
import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from servekit.errors import StartupError
from servekit.extension import draft_directory
from servekit.extension.commands import Run
from servekit.settings import parse_models
from servekit_kubernetes.arguments import add_render
from servekit_kubernetes.environment import changes_workers, check_environment
from servekit_kubernetes.helm import helm_files
from servekit_kubernetes.kserve import MEMORY_MIB, kserve_files
from servekit_kubernetes.kustomize import kustomize_files
from servekit_kubernetes.other_commands import check_model, write_image
from servekit_kubernetes.plan import GRPC, ImageFacts, KubePlan
from servekit_kubernetes.sizing import peaks, pod_memory_mib

__all__ = ["configure"]

REPLICAS = 2  #: with one, an eviction interrupts the service


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the command ``render``, and return what runs it."""
    add_render(parser)
    return run


def run(parsed: argparse.Namespace) -> int:
    """Write the files, and print what to do with them.

    :raises StartupError: a model is refused, or the directory is not empty.
    """
    directory: Path = parsed.output
    _check(parsed)
    with draft_directory(directory, force=parsed.force) as draft:
        written = write_image(parsed.models, draft / "image", _image_options(parsed))
        plan = _plan(parsed, written)
        for path, text in _files(plan, draft).items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
    print(json.dumps(_facts(plan, directory), indent=2) if parsed.json else _text(plan, directory))
    return 0


def _check(parsed: argparse.Namespace) -> None:
    """Check that the flags agree with each other, and the variables with the manifests.

    :raises StartupError: they do not.
    """
    settings = check_environment(dict(parsed.env), has_models=bool(parsed.models))
    if not parsed.models:
        given = [flag for flag, value in _of_deployments(parsed).items() if value]
        if given:
            raise StartupError(f"{given[0]} has no effect without a model, for KServe")
    elif changes_workers(settings) and not (parsed.cpus and (parsed.memory or parsed.no_check)):
        raise StartupError(
            "--env: another number of workers than that of the archives needs --cpus and --memory"
        )


def _of_deployments(parsed: argparse.Namespace) -> dict[str, object]:
    """Return the flags that a runtime of KServe does not use."""
    return {
        "--replicas": parsed.replicas,
        "--no-check": parsed.no_check,
        "--fetch-assets": parsed.fetch_assets,
        "--cache-dir": parsed.cache_dir,
    }


def _files(plan: KubePlan, draft: Path) -> dict[str, str]:
    """Return path to content: of a deployment, or of KServe if the image has no models."""
    if not plan.image.workers:
        return kserve_files(plan)
    monitoring = draft / "image" / "monitoring" / "kubernetes.yaml"
    dashboards = monitoring.read_text(encoding="utf-8")
    return kustomize_files(plan, dashboards) | helm_files(plan, dashboards)


def _image_options(parsed: argparse.Namespace) -> list[str]:
    one = {"--tag": parsed.image, "--base": parsed.base, "--cache-dir": parsed.cache_dir}
    # half of KServe's protocol is gRPC
    has_grpc = not parsed.models or bool(dict(parsed.env).get(GRPC))
    grpc = ["servekit-oip[grpc]"] if has_grpc else []
    several = {"--install": [*parsed.install, *grpc], "--find-links": parsed.find_links}
    return [
        *(word for flag, value in one.items() if value for word in (flag, value)),
        *(word for flag, found in several.items() for each in found for word in (flag, each)),
        *(["--fetch-assets"] if parsed.fetch_assets else []),
    ]


def _plan(parsed: argparse.Namespace, written: Mapping[str, Any]) -> KubePlan:
    image = ImageFacts(**{each.name: written[each.name] for each in fields(ImageFacts)})
    return KubePlan(
        image=image,
        name=parsed.name or image.name[:53].rstrip("-"),
        namespace=parsed.namespace,
        replicas=parsed.replicas or REPLICAS,
        scaling=parsed.autoscale,
        queue_time_s=parsed.queue_time,
        prometheus=parsed.prometheus,
        memory_mib=_memory_mib(parsed, written),
        cpus=parsed.cpus or str(max(image.workers, 1) + 1),
        gpus=parsed.gpus,
        env=dict(parsed.env),
    )


def _memory_mib(parsed: argparse.Namespace, written: Mapping[str, Any]) -> int | None:
    """Return the memory of a pod: as asked for, as measured, or ``None``."""
    if parsed.memory:
        return int(parsed.memory)
    if parsed.no_check:
        return None
    if not parsed.models:
        return MEMORY_MIB
    measured = list[int]()
    for source, model in zip(parse_models(parsed.models), written["models"], strict=True):
        measured += peaks(check_model(str(source.path), parsed.cache_dir), model["workers"])
    return pod_memory_mib(measured)


def _facts(plan: KubePlan, directory: Path) -> dict[str, object]:
    """Return what was written, for programs."""
    return {
        "directory": str(directory),
        "name": plan.name,
        "namespace": plan.namespace,
        "image": plan.image.tag,
        "resources": plan.resources,
        "files": sorted(
            str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()
        ),
    }


def _text(plan: KubePlan, directory: Path) -> str:
    """Return what was written, and the next steps, for people."""
    push = " --push" if "/" in plan.image.tag else ""
    at = shlex.quote(str(directory))
    build = f"build   docker build --tag {plan.image.tag}{push} {at}/image\n"
    if not plan.image.workers:
        return (
            f"{directory}: runtime of KServe with {plan.image.tag}, for any model\n{build}"
            f"apply   kubectl apply -f {at}/kserve/runtime.yaml\n"
            f"models  {at}/kserve/examples"
        )
    memory = "not measured" if plan.memory_mib is None else f"{plan.memory_mib} MiB"
    return (
        f"{directory}: {plan.namespace}/{plan.name}, {plan.replicas} pods of {plan.image.tag},"
        f" each {plan.cpus} CPUs, memory {memory}\n{build}"
        f"apply   kubectl apply -k {at}/base\n"
        f"   or   kubectl apply -k {at}/overlays/hpa, or keda: with an autoscaler\n"
        f"   or   helm install {plan.name} {at}/chart --namespace {plan.namespace}"
    )
