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
    open_repository: Annotated[
        bool,
        Meta(
            description="whether everybody may load and unload models of model_store at"
            " /v2/repository, as KServe's agent does; otherwise that needs the management token"
        ),
    ] = False
