# SPDX-License-Identifier: Apache-2.0
"""Calls of a model to copy: curl, Python with the client, JavaScript with fetch."""

from collections.abc import Callable, Mapping
from typing import Final

from servekit.description.snippets.curl import curl
from servekit.description.snippets.javascript import javascript
from servekit.description.snippets.python import python
from servekit.description.snippets.request import SnippetRequest

__all__ = ["FORMATS", "SnippetRequest"]

#: format to the function that writes it
FORMATS: Final[Mapping[str, Callable[[SnippetRequest], str]]] = {
    "curl": curl,
    "python": python,
    "javascript": javascript,
}
