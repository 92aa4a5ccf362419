# SPDX-License-Identifier: Apache-2.0
"""Resources of KServe: a runtime that serves models of many formats, and examples that use it."""

from collections.abc import Mapping
from typing import Any

from servekit_kubernetes.plan import GRPC, SPARE_S, KubePlan
from servekit_kubernetes.scaling import BUSY, QUEUE_TIME, Signal
from servekit_kubernetes.yaml_text import Resource, as_yaml, comment

__all__ = ["GRPC_PORT", "MEMORY_MIB", "STOP_S", "kserve_files"]

MOUNT = "/mnt/models"  #: where KServe puts a model
GRPC_PORT = 9000
MEMORY_MIB = 2048  #: memory of a pod; an InferenceService may ask for more
STOP_S = 30  #: what KServe gives a pod to end
#: formats, and the versions of each that an InferenceService may name
FORMATS = {
    "servekit": ("1",),
    "sklearn": ("0", "1"),
    "onnx": ("1",),
    "pytorch": ("1", "2"),
    "mlflow": ("1", "2", "3"),
    "xgboost": ("1", "2", "3"),
    "lightgbm": ("3", "4"),
    "torchserve": ("1",),
}
KNATIVE = {"serving.kserve.io/deploymentMode": "Serverless"}
STANDARD = {"serving.kserve.io/deploymentMode": "RawDeployment"}
KEPT = {"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "10m"}
BY_KEDA = {
    "serving.kserve.io/autoscalerClass": "keda",
    "serving.kserve.io/enable-prometheus-scraping": "true",
}
CREDENTIALS = "models-s3"  #: name of the Secret for an object store, and of its ServiceAccount


def kserve_files(plan: KubePlan) -> dict[str, str]:
    """Return path to content.

    :param plan: of an image without models.
    """
    on_volume, on_volume_2 = "pvc://models/iris", "pvc://models/iris-2"
    examples = {
        "pvc": [_service(plan, on_volume)],
        "s3": [
            *_credentials(plan),
            _service(plan, "s3://models/iris", serviceAccountName=CREDENTIALS),
        ],
        "oci": [_service(plan, "oci://registry.example/iris:1.0")],
        "canary": [_service(plan, on_volume_2, annotations=KNATIVE, **_canary())],
        "scale-to-zero": [_service(plan, on_volume, annotations=KNATIVE | KEPT, **_to_zero())],
        "keda": [_service(plan, on_volume, annotations=STANDARD | BY_KEDA, **_keda(plan))],
        "grpc": [_service(plan, on_volume, model=_by_grpc())],
    }
    texts = {f"kserve/examples/{name}.yaml": as_yaml(*found) for name, found in examples.items()}
    return {"kserve/runtime.yaml": as_yaml(_runtime(plan))} | texts


def _runtime(plan: KubePlan) -> Resource:
    """Return the ClusterServingRuntime."""
    formats = [
        {"name": name, "version": version, "autoSelect": name == "servekit"}
        for name, versions in FORMATS.items()
        for version in versions
    ]
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ClusterServingRuntime",
        "metadata": {"name": plan.name},
        "spec": {
            "annotations": {
                "prometheus.kserve.io/path": "/metrics",
                "prometheus.kserve.io/port": str(plan.image.port),
            },
            **comment("other formats have runtimes already: an InferenceService names this one"),
            "supportedModelFormats": formats,
            "protocolVersions": ["v2", "grpc-v2"],
            "multiModel": False,
            "containers": [_container(plan)],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }


def _container(plan: KubePlan) -> dict[str, Any]:
    return {
        "name": "kserve-container",
        "image": plan.image.tag,
        **comment("KServe fills in the name of the InferenceService"),
        "args": ["start", f"{{{{.Name}}}}={MOUNT}"],
        **comment("KServe gives a pod 30 s to end: drain delay and grace period fit in"),
        "env": [{"name": name, "value": text} for name, text in _env(plan).items()],
        **comment("no startup probe, which Knative refuses: a pod is alive while its model loads"),
        "livenessProbe": _probe(plan, "/ping/live", periodSeconds=10),
        "readinessProbe": _probe(plan, "/ping", periodSeconds=5),
        "resources": plan.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # in the container
    }


def _env(plan: KubePlan) -> dict[str, str]:
    grace_s = STOP_S - SPARE_S - plan.settings.drain_delay
    own = {
        GRPC: f"0.0.0.0:{GRPC_PORT}",
        "SERVEKIT_GRACE": f"{grace_s:g}",
    }
    return own | plan.every_env


def _probe(plan: KubePlan, path: str, **times: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": plan.image.port}, "timeoutSeconds": 5, **times}


def _service(
    plan: KubePlan,
    uri: str,
    *,
    annotations: Mapping[str, str] | None = None,
    model: Mapping[str, Any] | None = None,
    **predictor: Any,
) -> Resource:
    """Return the InferenceService ``iris`` of the archive at *uri*."""
    metadata = {"name": "iris", "namespace": plan.namespace}
    of_model = {
        "modelFormat": {"name": "servekit"},
        "runtime": plan.name,
        "protocolVersion": "v2",
        "storageUri": uri,
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata | ({"annotations": dict(annotations)} if annotations else {}),
        "spec": {"predictor": {**predictor, "model": of_model | dict(model or {})}},
    }


def _credentials(plan: KubePlan) -> list[Resource]:
    """Return a Secret for an object store, and the ServiceAccount that KServe finds it by."""
    named = {"name": CREDENTIALS, "namespace": plan.namespace}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            **named,
            "annotations": {
                "serving.kserve.io/s3-endpoint": "s3.amazonaws.com",
                "serving.kserve.io/s3-usehttps": "1",
                "serving.kserve.io/s3-region": "eu-central-1",
            },
        },
        "stringData": {"AWS_ACCESS_KEY_ID": "change-me", "AWS_SECRET_ACCESS_KEY": "change-me"},
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": named,
        "secrets": [{"name": CREDENTIALS}],
    }
    return [secret, account]


def _canary() -> dict[str, Any]:
    """Return what gives a new version of a service a tenth of the requests."""
    return {
        **comment(
            "the version before gets the other 90 %; without this line, the new one gets all"
        ),
        "canaryTrafficPercent": 10,
    }


def _to_zero() -> dict[str, Any]:
    """Return what scales a service to zero pods when no requests come."""
    return {
        "minReplicas": 0,
        "maxReplicas": 4,
        **comment("requests that a pod has at once, on average, before there is one more"),
        "scaleMetric": "concurrency",
        "scaleTarget": 8,
    }


def _keda(plan: KubePlan) -> dict[str, Any]:
    """Return what has KEDA scale a service on the time in queue."""
    target = f"{plan.queue_time_s:g}"
    return {
        "minReplicas": plan.scaling.least,
        "maxReplicas": plan.scaling.most,
        "autoScaling": {
            "metrics": [_external(plan, QUEUE_TIME, target), _external(plan, BUSY, "1")]
        },
    }


def _external(plan: KubePlan, signal: Signal, target: str) -> dict[str, Any]:
    match = f'namespace="{plan.namespace}",pod=~"iris-predictor-.*"'
    metric = {
        "backend": "prometheus",
        "serverAddress": plan.prometheus,
        "query": f"sum(\n{signal.query(match, 'pod')}\n)",
    }
    average = {"type": "AverageValue", "averageValue": target}
    return {"type": "External", "external": {"metric": metric, "target": average}}


def _by_grpc() -> dict[str, Any]:
    """Return what lets clients reach a service by gRPC; Knative has one port for each service."""
    port = {"name": "h2c", "protocol": "TCP", "containerPort": GRPC_PORT}
    return {"protocolVersion": "grpc-v2", "ports": [port]}
