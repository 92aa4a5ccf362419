# SPDX-License-Identifier: Apache-2.0
"""Resources as YAML: in the order of their keys, with comments, and with expressions of Helm."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import yaml

__all__ = ["Resource", "as_template", "as_yaml", "comment"]

#: a mapping of JSON values; a key that ``comment`` made becomes a comment line
Resource: TypeAlias = Mapping[str, Any]

COMMENT = re.compile(r"^(?P<indent>[ -]*)(?:'(?P<quoted># .*)'|\"(?P<double># .*)\"): null$")
#: the whole value is an expression; without the quotes, its result may be a number or JSON. The
#: names of a release keep their quotes: one may be ``n`` or ``1e3``
EXPRESSION = re.compile(r"(?<=: )'(\{\{ (?!\.Release\.)(?:[^}]|\}(?!\}))* \}\})'$", re.MULTILINE)
#: a key that is only there under a condition
CONDITION = re.compile(
    r"^( *)([\w-]+): '\{\{((?:if|with) (?:[^}]|\}(?!\}))*)\}\}(.*)\{\{end\}\}'$", re.MULTILINE
)
#: Go's YAML takes these for numbers and booleans, and PyYAML leaves them without quotes
AMBIGUOUS = re.compile(r"[-+]?\.?\d[\dA-Fa-fOoPpXx_.+-]*|[YyNn]")
#: characters that end a line in YAML 1.1; only in double quotes they are escaped
LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def comment(text: str) -> dict[str, None]:
    """Return an entry that stands for a comment line of *text*, at most 90 characters."""
    return {f"# {text}": None}


def as_yaml(*resources: Resource) -> str:
    """Return the documents of *resources*."""
    return "---\n".join(map(_document, resources))


def as_template(*resources: Resource) -> str:
    """Return the documents of *resources*, whose values may be expressions of Helm.

    A value ``{{ ... }}`` is written without quotes. A value ``{{if ...}}VALUE{{end}}``, or ``with``
    in place of ``if``, makes its key conditional.
    """
    text = CONDITION.sub(_as_condition, as_yaml(*resources))
    return EXPRESSION.sub(lambda found: _unquoted(found[1]), text)


def _document(resource: Resource) -> str:
    text = yaml.dump(
        resource, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True
    )  # no line is folded
    return "".join(f"{COMMENT.sub(_as_comment, line)}\n" for line in text.splitlines())


def _as_comment(found: re.Match[str]) -> str:
    return found["indent"] + (_unquoted(found["quoted"] or "") or found["double"] or "")


def _as_condition(found: re.Match[str]) -> str:
    indent, key, test, value = found.groups()
    return (
        f"{indent}{{{{- {_unquoted(test)} }}}}\n{indent}{key}: {_unquoted(value)}\n"
        f"{indent}{{{{- end }}}}"
    )


def _unquoted(text: str) -> str:
    return text.replace("''", "'")


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Indents lists as people do, writes lines as blocks, and no anchors."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if AMBIGUOUS.fullmatch(text) else None
    style = '"' if LINE_ENDS.search(text) else style
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
