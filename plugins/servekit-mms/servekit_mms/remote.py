# SPDX-License-Identifier: Apache-2.0
"""A model that a server of this program serves, with the methods of a service class."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import msgspec

from servekit_mms.archives import JPEG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from servekit_mms.archives import LegacySignature

__all__ = ["RemoteModelService"]

TIMEOUT_S: Final = 300.0


class RemoteModelService:
    """Asks the server; ``url`` is set when it starts."""

    def __init__(self, name: str, model_name: str, path: Path, signature: LegacySignature) -> None:
        """Stand for the model at ``/<name>/predict``.

        :param path: its archive or directory.
        """
        self.name, self.model_name, self.path, self.declared = name, model_name, path, signature
        self.url = ""

    @property
    def signature(self) -> Mapping[str, Any]:
        """``signature.json``."""
        found: Mapping[str, Any] = msgspec.to_builtins(self.declared)
        return found

    def inference(self, data: Sequence[Any]) -> Any:
        """Return the prediction for inputs in the order of the signature.

        :raises urllib.error.HTTPError: the server refuses them; its body says why.
        """
        is_image = self.declared.input_type == JPEG
        names = [each.data_name for each in self.declared.inputs]
        sent = {
            name: {"b64": b64encode(each).decode()} if is_image else each
            for name, each in zip(names, data, strict=True)
        }
        body = json.dumps(sent).encode()
        fields = {"Content-Type": "application/json", "Accept": "application/json"}
        return self._ask(f"/{self.name}/predict", body, fields)["prediction"]

    def ping(self) -> str:
        """Return ``healthy!``.

        :raises urllib.error.HTTPError: the model has no worker that answers.
        """
        return str(self._ask(f"/{self.name}/ping", None, {})["health"])

    def _ask(self, path: str, body: bytes | None, fields: Mapping[str, str]) -> Any:
        request = urllib.request.Request(self.url + path, body, dict(fields))  # noqa: S310
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            return json.load(response)
