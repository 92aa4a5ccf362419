# SPDX-License-Identifier: Apache-2.0
"""The settings of the plugin: ``[plugins.oip]``."""

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["OipSettings"]


class OipSettings(Struct, frozen=True, kw_only=True):
    """The settings for operators."""

    grpc: Annotated[
        str,
        Meta(
            pattern=r"^(.+:\d{1,5})?$",
            description="address of gRPC, such as 0.0.0.0:8001; empty: no gRPC",
        ),
    ] = ""
    grpc_processes: Annotated[
        int, Meta(ge=1, le=64, description="processes that speak gRPC, at the same address")
    ] = 1
