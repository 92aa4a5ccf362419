# SPDX-License-Identifier: Apache-2.0
"""Whole servekit servers on the nodes of a Ray cluster.

    deployment   what programs use: ``deploy``, ``connect`` and ``RayDeployment``
    state        what a deployment is to be, and what it is
    stored       what it is to be, in Ray's key-value store
    connection   reaches the cluster, and says what it lacks
    shipping     archives as chunks in Ray's object store
    controller   the actor that looks after a deployment
    models       the models of a command line
    order        what each server serves, and with which resources
    fleet        the servers of a deployment, as the controller sees them
    watched      one of them
    server       the actor that runs one server
    discovery    the servers, for clients in the cluster
    publishing   the servers, for clients outside of it
    serve        an ingress of Ray Serve
    command      ``servekit ray``
    output       what it prints
    progress     sentences for people who wait

Importing the package does not import Ray.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servekit_ray.deployment import RayDeployment, connect, deploy
    from servekit_ray.discovery import RayDiscovery

__all__ = ["RayDeployment", "RayDiscovery", "connect", "deploy"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'servekit_ray' has no attribute {name!r}")
    module = "discovery" if name == "RayDiscovery" else "deployment"
    return getattr(import_module(f"servekit_ray.{module}"), name)
