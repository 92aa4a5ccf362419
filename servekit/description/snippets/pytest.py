# SPDX-License-Identifier: Apache-2.0
"""A call as a test for pytest, with ``servekit-client``."""

from typing import Any

from msgspec import UNSET

from servekit.description.snippets.python import (
    call_expression,
    client_lines,
    head,
    item_expression,
)
from servekit.description.snippets.request import SnippetRequest

__all__ = ["pytest"]


def pytest(call: SnippetRequest) -> str:
    """Return a test: it compares the output with the expected one, if that is known."""
    asked = call_expression(call)
    imports, check = "", "output is not None"
    if call.output is not UNSET:
        imports = "pytest" if _is_approximate(call.output) else ""
        check = f"output == {_expected(call.output)}"
    elif call.streams:
        check = "output"
    return (
        f"{head(call, packages='pytest', imports=imports)}"
        f"\n\ndef test_prediction():\n    item = {item_expression(call.sample)}\n"
        f"{client_lines(call, '    ')}"
        f"        output = {f'list({asked})' if call.streams else asked}\n\n"
        f"    assert {check}\n"
    )


def _expected(output: Any) -> str:
    return f"pytest.approx({output!r})" if _is_approximate(output) else repr(output)


def _is_approximate(output: Any) -> bool:
    """Whether *output* has floats, and is what ``pytest.approx`` compares: it takes no nesting."""
    values = output.values() if isinstance(output, dict) else output
    flat = list(values) if isinstance(values, list) or isinstance(output, dict) else [output]
    return any(isinstance(each, float) for each in flat) and all(
        isinstance(each, int | float | str | None) for each in flat
    )
