# SPDX-License-Identifier: Apache-2.0
"""The settings of this plugin: ``[plugins.openai]`` in ``servekit.toml``."""

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["OpenAISettings"]


class OpenAISettings(Struct):
    """The settings and their defaults."""

    base64: Annotated[
        bool,
        Meta(description="send vectors as base64 if the client asks for it; false: as numbers"),
    ] = True
