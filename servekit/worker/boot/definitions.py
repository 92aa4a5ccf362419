# SPDX-License-Identifier: Apache-2.0
"""Schemas that others refer to by their names."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["OWN", "REFERENCE", "Definitions", "moved", "referred"]

REFERENCE: Final = "#/$defs/"
OWN: Final = "servekit.own/"  #: in its place within a group, until the names are known


class Definitions:
    """Definitions by their names. Different schemas have different names."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def add(self, group: Mapping[str, Any], *, are_outputs: bool = False) -> dict[str, str]:
        """Add the schemas of *group*, and return what takes the place of each ``OWN`` reference.

        A name that another schema has gets a suffix. Outputs get ``-Output`` first, all of a
        group, which tells them from inputs of the same type.

        :param group: schemas by the names of their types; they refer to one another with ``OWN``.
        """
        moves = self._apart(group)
        is_known = all(target in self.found for target in _names(moves))
        if are_outputs and not is_known and moves != _moves(group, {}):
            group = {f"{name}-Output": moved(each, _outputs(group)) for name, each in group.items()}
            return {own.removesuffix("-Output"): name for own, name in self.add(group).items()}
        schemas = (moved(schema, moves) for schema in group.values())
        self.found |= dict(zip(_names(moves), schemas, strict=True))
        return moves

    def _apart(self, group: Mapping[str, Any]) -> dict[str, str]:
        """Return references to the schemas of *group* with names that no other schemas have."""
        numbers, moves = dict.fromkeys(group, 1), _moves(group, {})
        while clashing := [name for name in group if self._clash(name, group, moves)]:
            others = {name: referred(group[name], group).keys() - {name} for name in clashing}
            # a schema may clash only because of one that it refers to
            innermost = [name for name in clashing if others[name].isdisjoint(clashing)]
            numbers |= {name: numbers[name] + 1 for name in innermost or clashing}
            moves = _moves(group, numbers)
        return moves

    def _clash(self, name: str, group: Mapping[str, Any], moves: Mapping[str, str]) -> bool:
        """Whether the name that *moves* have for a schema of *group* is that of another one."""
        schema, target = moved(group[name], moves), moves[OWN + name].removeprefix(REFERENCE)
        is_of_group = target != name and target in group
        return is_of_group or self.found.get(target, schema) != schema


def moved(value: Any, moves: Mapping[str, str]) -> Any:
    """Return a copy of a schema with other references.

    Discriminators name their targets outside of ``$ref``, so every string is checked.
    """
    if isinstance(value, Mapping):
        return {key: moved(inner, moves) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [moved(inner, moves) for inner in value]
    return moves.get(value, value) if isinstance(value, str) else value


def referred(schema: Any, group: Mapping[str, Any]) -> dict[str, Any]:
    """Return those schemas of *group* that *schema* refers to, directly or not."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for text in _strings(waiting.pop()):
            name = text.removeprefix(OWN)
            if name != text and name in group and name not in found:
                found[name] = group[name]
                waiting.append(group[name])
    return found


def _moves(group: Mapping[str, Any], numbers: Mapping[str, int]) -> dict[str, str]:
    suffixes = {name: f"-{number}" if number > 1 else "" for name, number in numbers.items()}
    return {f"{OWN}{name}": f"{REFERENCE}{name}{suffixes.get(name, '')}" for name in group}


def _names(moves: Mapping[str, str]) -> list[str]:
    return [target.removeprefix(REFERENCE) for target in moves.values()]


def _outputs(group: Mapping[str, Any]) -> dict[str, str]:
    return {f"{OWN}{name}": f"{OWN}{name}-Output" for name in group}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(inner)
