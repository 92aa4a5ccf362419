# SPDX-License-Identifier: Apache-2.0
"""The configuration of HAProxy 2.6 and later."""

import re
from collections.abc import Iterator, Sequence

from servekit_ingress.nodes import CHECK_EVERY_S, IDLE_S, IngressOptions, NodeAddress

__all__ = ["haproxy"]

HEAD = """\
# Written by `servekit ingress haproxy`, which writes it again: change its options instead.
global
    # servers that go and come
    log stdout format raw local0 notice
    # where the limit of file descriptors is huge, HAProxy takes memory for all of them
    fd-hard-limit 100000

defaults
    mode http
    log global
    timeout connect 1s
    timeout check 2s
    timeout http-request 10s
    timeout http-keep-alive 75s
    timeout client 30s
    # longer than predict_timeout of every model; streams send something every few seconds
    timeout server {timeout_s}s
    # a reload closes no connection that a client is about to use
    option idle-close-on-response
    option forwardfor
    balance leastconn
    # a request is sent again, to another server, {when}
    retries 3
    option redispatch 1
    retry-on {retry_on}
    # 200: every model can answer. 503: it drains, for example; then it finishes what it has
    option httpchk
    http-check send meth GET uri /ping ver HTTP/1.1 hdr host servekit hdr connection close
    http-check expect status 200
    # a server whose port is closed goes at once, and comes back with its next good check
    default-server inter {every_s}s fastinter 250ms fall 2 rise 1
    default-server observe layer4 error-limit 1 on-error mark-down
    default-server pool-purge-delay {idle_s}s
"""
PROXY = """
frontend {name}
    bind {listen}{protocol}
    default_backend {name}_servers

backend {name}_servers
"""
#: many clients send the body after the header section, in another packet
WHOLE = """\
    # only what has arrived in full can be sent again
    option http-buffer-request
"""
WHEN = {
    False: ("if it has not reached the first", "conn-failure"),
    True: ("if the first is gone or cannot answer now", "conn-failure empty-response 503"),
}


def haproxy(options: IngressOptions, nodes: Sequence[NodeAddress]) -> str:
    """Return the configuration for *nodes*."""
    return "".join(_parts(options, nodes))


def _parts(options: IngressOptions, nodes: Sequence[NodeAddress]) -> Iterator[str]:
    when, retry_on = WHEN[options.repeats]
    yield HEAD.format(
        timeout_s=options.timeout_s,
        when=when,
        retry_on=retry_on,
        every_s=CHECK_EVERY_S,
        idle_s=IDLE_S,
    )
    yield PROXY.format(name="http", listen=options.listen, protocol="")
    if options.repeats:
        yield WHOLE
    for node in nodes:
        yield f"    server {_name(node)} {node} check\n"
    if options.grpc_port:
        listen = options.listen._replace(port=options.grpc_port)
        yield PROXY.format(name="grpc", listen=listen, protocol=" proto h2")
        for node in nodes:
            at = node._replace(port=options.grpc_port)
            yield f"    server {_name(node)} {at} proto h2 check port {node.port} check-proto h1\n"


def _name(node: NodeAddress) -> str:
    """Return what logs and statistics call *node*."""
    return re.sub(r"[^\w.-]", "_", f"{node.host}_{node.port}")
