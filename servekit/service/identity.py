# SPDX-License-Identifier: Apache-2.0
"""The identity of a client, as a plugin has determined it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A client, as ``authorize`` of a plugin names it. Services see it as ``request.identity``."""

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)  #: further facts for services
