# SPDX-License-Identifier: Apache-2.0
"""A response, as a client sees it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OK", "Response"]

OK = 200


@dataclass(frozen=True, slots=True)
class Response:
    """Status, media type and body of one answer."""

    status: int
    content_type: str
    body: bytes
    #: from a ``ServiceClient``, only those that the service set
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """Return the body, decoded as JSON."""
        return json.loads(self.body)

    @property
    def prediction(self) -> Any:
        """The output in a JSON answer; an ``AssertionError`` shows any other answer."""
        if self.status != OK:
            raise AssertionError(f"{self.status}: {self.body.decode(errors='replace')}")
        return self.json()["prediction"]
