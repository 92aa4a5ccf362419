# SPDX-License-Identifier: Apache-2.0
"""The configuration of Envoy: a file for its start, and those with the nodes."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from servekit.errors import StartupError
from servekit_ingress.nodes import CHECK_EVERY_S, IDLE_S, IngressOptions, NodeAddress

__all__ = ["envoy"]

Document: TypeAlias = Mapping[str, object]
TYPES = "type.googleapis.com/envoy"
#: no limit of connections and requests: the servers themselves say when they have enough
NO_LIMIT = 1_000_000


def envoy(
    options: IngressOptions, nodes: Sequence[NodeAddress], path: Path
) -> dict[Path, Document]:
    """Return the files: those with the nodes first, as Envoy wants them when it starts.

    :param path: of the file that Envoy is started with; the others are beside it.
    :raises StartupError: the name of a node is not known.
    """
    ways = {"http": options.listen.port}
    if options.grpc_port:
        ways["grpc"] = options.grpc_port
    found = sorted({each for node in nodes for each in _resolved(node)})
    files = {name: path.with_name(f"{path.stem}-{name}.json").absolute() for name in ways}
    listeners = [
        _listener(name, options.listen._replace(port=port), options) for name, port in ways.items()
    ]
    bootstrap = {
        "node": {"id": "servekit", "cluster": "servekit"},
        "static_resources": {
            "listeners": listeners,
            "clusters": [_cluster(name, files[name]) for name in ways],
        },
    }
    nodes_of = {
        files[name]: _assignment(name, [_endpoint(node, name, options) for node in found])
        for name in ways
    }
    return {**nodes_of, path: bootstrap}


def _assignment(cluster: str, found: Sequence[Document]) -> Document:
    resource = {
        "@type": f"{TYPES}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": found}],
    }
    return {"resources": [resource]}


def _resolved(node: NodeAddress) -> list[NodeAddress]:
    """Return *node* at its IP addresses: Envoy takes no names in such a file."""
    try:
        found = socket.getaddrinfo(node.host, node.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise StartupError(f"{node.host}: {error.strerror}") from error
    return [NodeAddress(str(at[0]), node.port) for *_, at in found]


def _endpoint(node: NodeAddress, cluster: str, options: IngressOptions) -> Document:
    at = node._replace(port=options.grpc_port) if cluster == "grpc" else node
    return {
        "endpoint": {
            "address": _socket(at),
            "health_check_config": {"port_value": node.port},
        }
    }


def _socket(at: NodeAddress) -> Document:
    return {"socket_address": {"address": at.host, "port_value": at.port}}


def _listener(name: str, at: NodeAddress, options: IngressOptions) -> Document:
    manager = {
        "@type": f"{TYPES}.extensions.filters.network.http_connection_manager.v3"
        ".HttpConnectionManager",
        "stat_prefix": name,
        "use_remote_address": True,  # and so X-Forwarded-For has it
        "request_headers_timeout": "10s",
        "stream_idle_timeout": f"{options.timeout_s}s",
        "route_config": {
            "virtual_hosts": [{"name": name, "domains": ["*"], "routes": [_route(name, options)]}]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPES}.extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    return {"name": name, "address": _socket(at), "filter_chains": [{"filters": [chain]}]}


def _route(cluster: str, options: IngressOptions) -> Document:
    retry: dict[str, object] = {
        "retry_on": "connect-failure,refused-stream",
        "num_retries": 3,
        "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {
                    "@type": f"{TYPES}.extensions.retry.host.previous_hosts.v3"
                    ".PreviousHostsPredicate"
                },
            }
        ],
        "host_selection_retry_max_attempts": 10,
    }
    if options.repeats:
        retry["retry_on"] = "connect-failure,refused-stream,reset,retriable-status-codes"
        retry["retriable_status_codes"] = [503]
    # "0s": a stream may take as long as it sends something
    route = {"cluster": cluster, "timeout": "0s", "retry_policy": retry}
    return {"match": {"prefix": "/"}, "route": route}


def _cluster(name: str, nodes_path: Path) -> Document:
    return {
        "name": name,
        "type": "EDS",
        "eds_cluster_config": {
            "eds_config": {
                "path_config_source": {"path": str(nodes_path)},
                "resource_api_version": "V3",
            }
        },
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "1s",
        # all nodes have failed their check: 503, rather than requests to all of them
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "ignore_health_on_host_removal": True,  # nodes that leave the file get no more requests
        "health_checks": [_health_check()],
        "outlier_detection": _outlier_detection(),
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": NO_LIMIT,
                    "max_pending_requests": NO_LIMIT,
                    "max_requests": NO_LIMIT,
                    "max_retries": NO_LIMIT,
                }
            ]
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": f"{TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {"idle_timeout": f"{IDLE_S}s"},
                "explicit_http_config": {
                    "http2_protocol_options" if name == "grpc" else "http_protocol_options": {}
                },
            }
        },
    }


def _health_check() -> Document:
    every = f"{CHECK_EVERY_S}s"
    return {
        "interval": every,
        "no_traffic_interval": every,
        "timeout": "2s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "http_health_check": {"path": "/ping", "codec_client_type": "HTTP1"},
    }


def _outlier_detection() -> Document:
    """Eject nodes that cannot be reached; a model that answers 500 or 504 may have bad clients."""
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": 3,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_local_origin_success_rate": 0,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": "1s",
        "max_ejection_time": "30s",
        "max_ejection_percent": 100,
    }
