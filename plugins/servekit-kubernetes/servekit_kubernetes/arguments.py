# SPDX-License-Identifier: Apache-2.0
"""The arguments of ``servekit kube``."""

import argparse
from pathlib import Path
from typing import TypeAlias

from servekit.settings.arguments import NumberArgument, count, seconds
from servekit_kubernetes.argument_types import (
    cores,
    label,
    mebibytes,
    namespace,
    scaling,
    url,
    variable,
)
from servekit_kubernetes.plan import Range

__all__ = ["add_render"]

Group: TypeAlias = argparse._ArgumentGroup  # noqa: SLF001  # argparse has no public name for it

EPILOG = """\
examples:
  servekit kube render digits.mar -o k8s --image registry.example/digits:1.0
"""
RENDER_EPILOG = """\
The command writes to DIR:

  base/           Deployment, Services and PodDisruptionBudget, for Kustomize: for any cluster
  overlays/hpa    base, a ServiceMonitor, and an HPA on the time that requests wait
  overlays/keda   the same with a ScaledObject of KEDA in place of the HPA
  components/     what the overlays add to the base
  chart/          the same for Helm
  monitoring/     dashboards and alerts, once for each cluster
  image/          the build context of the image, as `servekit dockerfile` writes it

Each model is loaded once, as by `servekit check`, to measure the memory of a pod.

Without MODEL it writes a ClusterServingRuntime of KServe, with examples of InferenceServices, to
kserve/, and an image that serves any model to image/.

examples:
  servekit kube render digits.mar -o k8s --image registry.example/digits:1.0
  docker build --tag registry.example/digits:1.0 --push k8s/image
  kubectl apply -k k8s/base

  servekit kube render -o k8s --image registry.example/servekit:1      for KServe
  servekit kube render a.mar two=b.mar -o k8s --namespace models --autoscale 2:10
  servekit kube render llm.mar -o k8s --gpus 1 --memory 24GiB --env SERVEKIT_GRACE=120
"""


def add_render(parser: argparse.ArgumentParser) -> None:
    """Add the command ``render``, with its arguments and the text below them."""
    parser.epilog = EPILOG
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    render = commands.add_parser(
        "render",
        help="write manifests for Kustomize, a Helm chart, or a runtime of KServe",
        description="Write manifests for Kustomize and a Helm chart, or a runtime of KServe.",
        epilog=RENDER_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_files(render)
    _add_names(render.add_argument_group("names and variables"))
    _add_sizes(render.add_argument_group("pods"))
    _add_scaling(render.add_argument_group("autoscalers"))
    _add_image(render.add_argument_group("image, as of `servekit dockerfile`"))


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="*",
        default=[],
        metavar="MODEL",
        help="archive or model directory, or NAME=PATH; none for KServe, which brings the models",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="new or empty"
    )
    parser.add_argument(
        "-f", "--force", action="store_true", help="overwrite files of the same name"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def _add_names(parser: Group) -> None:
    parser.add_argument(
        "--name",
        type=label,
        help="name of the Deployment, or of KServe's runtime (default: that of the image)",
    )
    parser.add_argument(
        "--namespace",
        type=namespace,
        default="default",
        metavar="NAME",
        help="its namespace (default: default)",
    )
    parser.add_argument(
        "--image",
        metavar="NAME:TAG",
        help="name of the image, with its registry (default: NAME:VERSION of the first model)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=variable,
        metavar="NAME=VALUE",
        help="a variable of the container, such as a setting: SERVEKIT_QUEUE=200; may be repeated",
    )


def _add_sizes(parser: Group) -> None:
    parser.add_argument("--replicas", type=count, metavar="N", help="number of pods (default: 2)")
    parser.add_argument(
        "--cpus",
        type=cores,
        metavar="N",
        help="cores that a pod requests (default: one for each worker, and one)",
    )
    parser.add_argument(
        "--gpus", type=count, default=0, metavar="N", help="GPUs of a pod (nvidia.com/gpu)"
    )
    memory = parser.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory",
        type=mebibytes,
        metavar="SIZE",
        help="memory of a pod, such as 2GiB, instead of measuring it",
    )
    memory.add_argument(
        "--no-check", action="store_true", help="load no model, and leave the memory out"
    )


def _add_scaling(parser: Group) -> None:
    parser.add_argument(
        "--autoscale",
        type=scaling,
        default=Range(2, 8),
        metavar="MIN:MAX",
        help="least and greatest number of pods (default: 2:8)",
    )
    parser.add_argument(
        "--queue-time",
        type=NumberArgument(0.001, 3600, seconds),  # Kubernetes can write it in milliseconds
        default=0.2,
        metavar="TIME",
        help="add pods while requests wait longer than this (default: 0.2)",
    )
    parser.add_argument(
        "--prometheus",
        type=url,
        metavar="URL",
        default="http://prometheus-operated.monitoring:9090",
        help="the Prometheus that KEDA and prometheus-adapter ask (default: http://prometheus-operated.monitoring:9090)",
    )


def _add_image(group: Group) -> None:
    group.add_argument("--base", metavar="IMAGE", help="base image")
    group.add_argument(
        "--install",
        action="extend",
        nargs="+",
        default=[],
        metavar="PACKAGE",
        help="additional packages, such as plugins with codecs",
    )
    group.add_argument(
        "--find-links",
        action="extend",
        nargs="+",
        default=[],
        metavar="DIR",
        help="folders of wheels from which packages were installed here",
    )
    group.add_argument(
        "--fetch-assets", action="store_true", help="fetch [assets] when the image is built"
    )
    group.add_argument("--cache-dir", metavar="DIR", help="where archives are unpacked")
