# SPDX-License-Identifier: Apache-2.0
"""Dataclasses that check themselves: a field's kind, default and help are written once."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final

from servekit_archiver.errors import ManifestError
from servekit_archiver.manifest.kinds import Kind
from servekit_archiver.spelling import closest
from servekit_archiver.strictjson import describe, join, show

__all__ = ["ManifestTable", "TableOf", "key"]

ABSENT: Final = object()  #: the value of a key that must be given and was not


def key(kind: Kind, *, default: Any = ABSENT, factory: Any = MISSING, help: str) -> Any:  # noqa: A002 - argparse's word
    """Declare a field. Without *default* or *factory* the key must be given."""
    metadata = {"kind": kind, "help": help}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTable:
    """A table of the manifest. To hold one is to know that it is valid.

    :raises ManifestError: on construction, with every problem.
    """

    def __post_init__(self) -> None:
        problems: list[str] = []
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is ABSENT:
                problems.append(f"{spec.name}: is missing; {spec.metadata['help']}")
            elif value is not None or spec.default is not None:
                checked = spec.metadata["kind"].check(value, spec.name, problems)
                object.__setattr__(self, spec.name, checked)
        problems += self._problems()
        if problems:
            raise ManifestError(problems)

    def _problems(self) -> Iterator[str]:
        """Yield what no single key shows. A key may hold anything here: it may be wrong."""
        return iter(())

    def to_mapping(self) -> dict[str, Any]:
        """Return plain dicts, lists and scalars; keys that are ``None`` are left out."""
        values = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """Return *value* with records, tuples and read-only tables turned into plain ones."""
    if isinstance(value, ManifestTable):
        return value.to_mapping()
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class TableOf:
    """The kind of a key that holds a record."""

    record: type[ManifestTable]

    def check(self, value: object, where: str, problems: list[str]) -> Any:
        """Return the record made of *value*, or ``None`` if it has problems."""
        if isinstance(value, self.record):
            return value
        if not isinstance(value, Mapping):
            problems.append(f"{where}: {show(value)} is {describe(value)}, not a table")
            return None
        known = {spec.name: spec for spec in fields(self.record)}
        found = [self._unknown(name, known) for name in value if name not in known]
        nulls = [name for name, entry in value.items() if entry is None and name in known]
        found += [f"{n}: null; leave it out" for n in nulls if known[n].default is not ABSENT]
        given = {
            name: entry for name, entry in value.items() if name in known and entry is not None
        }
        try:
            record = self.record(**given)
        except ManifestError as error:
            found += error.problems
        problems += [f"{where}.{problem}" if where else problem for problem in found]
        return None if found else record

    def _unknown(self, name: object, known: Mapping[str, Field[Any]]) -> str:
        text = join("", name).removeprefix(".")
        for table, spec in known.items():
            kind = spec.metadata["kind"]
            if isinstance(kind, TableOf) and name in {inner.name for inner in fields(kind.record)}:
                return f"{text}: unknown key here; it belongs in [{table}]"
        meant = closest(str(name)[:80].lower(), known)
        hint = f"did you mean {meant}?" if meant else f"known: {', '.join(sorted(known))}"
        return f"{text}: unknown key; {hint}"

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the table; keys are described by their help."""
        specs = {spec.name: spec for spec in fields(self.record)}
        schema: dict[str, Any] = {
            "type": "object",
            "description": (self.record.__doc__ or "").partition("\n")[0],
            "properties": {name: _describe(spec) for name, spec in specs.items()},
            "additionalProperties": False,
        }
        if required := [name for name, spec in specs.items() if spec.default is ABSENT]:
            schema["required"] = required
        return schema


def _describe(spec: Field[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {**spec.metadata["kind"].schema()}
    schema["description"] = spec.metadata["help"]
    if spec.default is not ABSENT and spec.default is not MISSING and spec.default is not None:
        schema["default"] = plain(spec.default)
    return schema
