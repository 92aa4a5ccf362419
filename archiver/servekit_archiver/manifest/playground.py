# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF009 - key() declares a field, as dataclasses.field does
"""How a page for trying the model shows its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from servekit_archiver.manifest.kinds import Choice, Json, MapOf, Text
from servekit_archiver.manifest.record import ManifestTable, TableOf, key

__all__ = ["Playground"]

LINE: Final = Text(max_length=256)
WORDS: Final = Text(max_length=4096, lines=True)
FIELD: Final = Text(max_length=256, min_length=1)
WIDGETS: Final = (
    *("text", "textarea", "number", "slider", "switch", "choice", "json", "array", "grid"),
    *("image", "audio", "file", "hidden"),
)
VIEWS: Final = ("text", "json", "table", "image", "bars", "audio", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundField(ManifestTable):
    """How one input, or one field of it, is shown."""

    widget: str | None = key(
        Choice(WIDGETS), default=None, help="what people fill in; default: chosen by the schema"
    )
    label: str = key(LINE, default="", help="its name for people")
    help: str = key(WORDS, default="", help="a sentence below it")
    example: Any = key(Json(), default=None, help="what a new form holds; a hidden field sends it")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaygroundOutput(ManifestTable):
    """How outputs are shown."""

    view: str | None = key(
        Choice(VIEWS), default=None, help="how outputs that fit are shown; default: chosen by them"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Playground(ManifestTable):
    """The page where people try the model."""

    title: str = key(LINE, default="", help="heading of the page; default: the model's name")
    description: str = key(WORDS, default="", help="text below it; default: that of the model")
    inputs: Mapping[str, PlaygroundField] = key(
        MapOf(FIELD, TableOf(PlaygroundField), max_items=256),
        factory=dict,
        help="fields of the input by name; one inside another as outer.inner, and an input without"
        " fields as input",
    )
    output: PlaygroundOutput | None = key(
        TableOf(PlaygroundOutput), default=None, help="the outputs of all paths"
    )
