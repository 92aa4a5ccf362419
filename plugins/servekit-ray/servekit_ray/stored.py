# SPDX-License-Identifier: Apache-2.0
"""The desired state of deployments in Ray's key-value store, which outlives their controllers."""

import msgspec

from servekit_ray.fleet import NAMESPACE
from servekit_ray.state import DesiredState

__all__ = ["read_state", "write_state"]


def read_state(name: str) -> DesiredState | None:
    """Return what is deployed under *name*, if anything is."""
    from ray.experimental.internal_kv import _internal_kv_get

    found = _internal_kv_get(name, namespace=NAMESPACE)
    return msgspec.json.decode(found, type=DesiredState) if found else None


def write_state(name: str, state: DesiredState | None) -> None:
    """Keep what is deployed under *name*, or forget it."""
    from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_put

    if state is None:
        _internal_kv_del(name, namespace=NAMESPACE)
    else:
        _internal_kv_put(name, msgspec.json.encode(state), namespace=NAMESPACE)
