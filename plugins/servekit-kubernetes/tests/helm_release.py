# SPDX-License-Identifier: Apache-2.0
"""Installs a chart with Helm itself, into an API server that accepts everything and keeps it."""

import asyncio
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

#: API group and version, and the kinds in it that a chart may have
KINDS = {
    "v1": ["Service", "ConfigMap", "Secret"],
    "apps/v1": ["Deployment"],
    "policy/v1": ["PodDisruptionBudget"],
    "autoscaling/v2": ["HorizontalPodAutoscaler"],
    "keda.sh/v1alpha1": ["ScaledObject"],
    "monitoring.coreos.com/v1": ["ServiceMonitor", "PrometheusRule"],
}
JSON = "application/json"
NOT_FOUND = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
             "reason": "NotFound", "message": "not found"}  # fmt: skip
OWN = {"app.kubernetes.io/managed-by"}  #: labels that Helm adds


def install(chart, name, namespace, values, scratch):
    """Return the resources that ``helm install`` creates, by kind and name.

    :raises helm_sdkpy.InstallError: Helm refuses the chart or the values.
    """
    helm = pytest.importorskip("helm_sdkpy", reason="no Helm: pip install helm-sdkpy")
    with api_server() as (url, created):
        config = helm.Configuration(namespace, kubeconfig=str(kubeconfig(url, scratch)))
        asyncio.run(helm.Install(config).run(name, str(chart), values, wait=False))
    return {(each["kind"], each["metadata"]["name"]): clean(each) for each in created}


def applied(chart, name, namespace, values, live, scratch):
    """Return the Deployment that Helm applies in place of *live*, one of the same name."""
    helm = pytest.importorskip("helm_sdkpy", reason="no Helm: pip install helm-sdkpy")
    with api_server(live) as (url, sent):
        install = helm.Install(helm.Configuration(namespace, str(kubeconfig(url, scratch))))
        options = {"wait": False, "take_ownership": True, "server_side_apply": True}
        asyncio.run(install.run(name, str(chart), values, **options))
    return next(each for each in sent if each["kind"] == "Deployment")


def lint(chart, scratch):
    """Return what ``helm lint`` says of *chart*."""
    helm = pytest.importorskip("helm_sdkpy", reason="no Helm: pip install helm-sdkpy")
    with api_server() as (url, _):
        config = helm.Configuration("default", kubeconfig=str(kubeconfig(url, scratch)))
        return asyncio.run(helm.Lint(config).run(str(chart)))


def clean(resource):
    """Return *resource* without what Helm adds."""
    metadata = resource["metadata"]
    metadata["labels"] = {k: v for k, v in metadata.get("labels", {}).items() if k not in OWN}
    notes = metadata.pop("annotations", {})
    kept = {k: v for k, v in notes.items() if not k.startswith("meta.helm.sh/")}
    return resource | {"metadata": metadata | ({"annotations": kept} if kept else {})}


def kubeconfig(url, scratch):
    path = scratch / "kubeconfig.json"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    }))  # fmt: skip
    return path


@contextmanager
def api_server(live=None):
    """Yield the URL of a server, and a list of what is created and patched there.

    :param live: a Deployment that the server has.
    """
    created = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(created, live))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", created
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(created, live):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            document = DISCOVERY.get(self.path.partition("?")[0].rstrip("/"))
            if live and self.path.endswith(f"/deployments/{live['metadata']['name']}"):
                document = live
            if document is None and "?" in self.path:
                document = {"apiVersion": "v1", "kind": "SecretList", "items": []}
            status = 404 if document is None else 200
            self._answer(status, JSON, json.dumps(document or NOT_FOUND).encode())

        def do_POST(self):
            """Send back what comes: the Secret in which Helm notes the release is protobuf."""
            media_type = self.headers["Content-Type"]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if media_type == JSON:
                created.append(json.loads(body))
            self._answer(201 if self.command == "POST" else 200, media_type, body)

        def do_PATCH(self):
            """Take what is applied, or a change of the live Deployment."""
            created.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(200, JSON, json.dumps(live).encode())

        do_PUT = do_POST  # noqa: N815  # of that Secret

        def _answer(self, status, media_type, body):
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def _discovery():
    groups = {}
    for version, kinds in KINDS.items():
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = [
            {"name": _plural(kind), "kind": kind, "namespaced": True, "verbs": ["create", "get"]}
            for kind in kinds
        ]
        yield path, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                     "resources": resources}  # fmt: skip
        if "/" in version:
            groups[version.partition("/")[0]] = version
    entries = {group: {"groupVersion": version, "version": version.rpartition("/")[2]}
               for group, version in groups.items()}  # fmt: skip
    yield "/api", {"kind": "APIVersions", "versions": ["v1"]}
    yield "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
        {"name": group, "versions": [entry], "preferredVersion": entry}
        for group, entry in entries.items()]}  # fmt: skip
    yield "/version", {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}


def _plural(kind):
    return kind.lower() + "s"


DISCOVERY = dict(_discovery())
