# SPDX-License-Identifier: Apache-2.0
"""Calls of a model to copy: curl, Python, JavaScript, a test for pytest."""

from collections.abc import Callable, Mapping
from typing import Final

from servekit.description.snippets.curl import curl
from servekit.description.snippets.javascript import javascript
from servekit.description.snippets.pytest import pytest
from servekit.description.snippets.python import python
from servekit.description.snippets.request import SnippetRequest
from servekit.description.snippets.requests import requests

__all__ = ["FORMATS", "SnippetRequest"]

#: format to the function that writes it
FORMATS: Final[Mapping[str, Callable[[SnippetRequest], str]]] = {
    "curl": curl,
    "python": python,
    "requests": requests,
    "javascript": javascript,
    "pytest": pytest,
}
