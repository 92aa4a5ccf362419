# SPDX-License-Identifier: Apache-2.0
"""``[plugins.torchserve]``: what a server has of TorchServe besides the paths of inference."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["TorchServeSettings"]

Address = Annotated[str, Meta(pattern=r"^(.+:\d{1,5})?$")]


class TorchServeSettings(Struct):
    """Nothing is on by default; ``servekit torchserve`` sets what TorchServe has."""

    management: Annotated[Address, Meta(description="address of the management API: HOST:PORT")] = (
        ""
    )
    metrics: Annotated[Address, Meta(description="address of the page of metrics: HOST:PORT")] = ""
    grpc_inference: Annotated[
        Address, Meta(description="address of the inference service of gRPC: HOST:PORT")
    ] = ""
    grpc_management: Annotated[
        Address, Meta(description="address of the management service of gRPC: HOST:PORT")
    ] = ""
    model_store: Annotated[
        str, Meta(description="directory of the archives that a registration names")
    ] = ""
    model_api: Annotated[
        bool, Meta(description="models can be registered and unregistered at run time")
    ] = False
    tokens: Annotated[bool, Meta(description="management needs the token for management")] = True
