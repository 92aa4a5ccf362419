# SPDX-License-Identifier: Apache-2.0
"""Parsers of settings. Each raises ``ValueError`` with a message for people."""

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "DAY_S",
    "GIB",
    "KIB",
    "MIB",
    "STDOUT",
    "TIB",
    "Between",
    "absolute",
    "absolute_model",
    "absolute_output",
    "did_you_mean",
    "is_url",
    "number",
    "one_of",
    "origin",
    "plain_text",
    "proxy",
    "rule_names",
    "shown_url",
    "size",
    "size_text",
    "split_class",
    "split_model",
    "switch",
    "variable_pattern",
    "whole_number",
]

KIB, MIB, GIB, TIB = (2 ** (10 * power) for power in range(1, 5))
DAY_S = 86_400.0

SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZES |= {"K": KIB, "KIB": KIB, "M": MIB, "MIB": MIB, "G": GIB, "GIB": GIB, "T": TIB, "TIB": TIB}
WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
SIZE = re.compile(rf"({NUMBER.pattern})\s*([A-Za-z]*)", re.ASCII)
STDOUT = "-"
VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")  # a pattern of names
ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?|\*", re.ASCII)
RULE = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
SHOWN_CHARACTERS = 40  #: characters of a refused number that a message shows
EXACT_DIGITS = 18  #: longer numbers are above every limit
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
CLASS = re.compile(r"(.+\.py):([A-Za-z_]\w*)", re.ASCII)


def whole_number(text: str) -> float:
    """Parse ``8080``; one too long for any limit becomes a float."""
    if not WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text) if len(text) <= EXACT_DIGITS else float(text)


def number(text: str) -> float:
    """Parse ``0.5``; infinity and NaN are refused."""
    if not NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def size(text: str) -> float:
    """Parse ``10485760``, ``10MiB`` or ``10MB`` into bytes; infinity stays a float."""
    found = SIZE.fullmatch(text.strip())
    if not found or found[2].upper() not in SIZES:
        raise ValueError(f"{text!r} is not a size such as 10MiB")
    count = float(found[1]) * SIZES[found[2].upper()]
    return int(count) if math.isfinite(count) else count


def size_text(count: float) -> str:
    """``10485760`` as ``10MiB``."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit:.0f}{name}"
    return plain_text(count)


def plain_text(value: float) -> str:
    """``86400.0`` as ``86400``."""
    return f"{value:.0f}" if value == int(value) else str(value)


@dataclass(frozen=True, slots=True)
class Between:
    """A parser of numbers that refuses one out of range."""

    low: float
    high: float
    read: Callable[[str], float] = whole_number

    def __call__(self, text: str) -> float:
        """Parse *text*."""
        value = self.read(text)
        shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
        if value < self.low:
            raise ValueError(f"{shown} is below {self.show(self.low)}")
        if value > self.high:
            raise ValueError(f"{shown} is above {self.show(self.high)}")
        return value

    def show(self, value: float) -> str:
        """Return *value* as one would type it."""
        return size_text(value) if self.read is size else plain_text(value)


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that takes only *choices*."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def rule_names(text: str) -> str:
    """Parse ``signed,no-pickle``: names of rules for archives."""
    names = [word.strip() for word in text.split(",")] if text else []
    for name in names:
        if not RULE.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a rule, such as no-pickle")
    return ",".join(names)


def origin(text: str) -> str:
    """Parse ``https://app.example:8443``, as a browser writes it, or ``*``."""
    if not ORIGIN.fullmatch(text.lower()):
        raise ValueError(f"{text!r} is not an origin such as https://app.example")
    return text.lower()


def proxy(text: str) -> str:
    """Take the address of a proxy: ``10.0.0.7``, ``10.0.0.0/8``, or ``unix``."""
    if text != "unix":
        from ipaddress import ip_network

        try:
            ip_network(text, strict=False)
        except ValueError:
            reason = "is not an IP address, a network such as 10.0.0.0/8, or unix"
            raise ValueError(f"{text!r} {reason}") from None
    return text


def variable_pattern(text: str) -> str:
    """Take the name of a variable, in which ``*`` stands for any part."""
    if not VARIABLE.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a variable, such as HF_TOKEN or EMB_*")
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'port'?`` for ``prot``; "" if nothing known is close."""
    from servekit_archiver.spelling import closest  # it is needed only for mistakes

    meant = closest(name[:SHOWN_CHARACTERS], known)
    return f", did you mean {meant!r}?" if meant else ""


def switch(text: str) -> bool:
    """Parse ``true`` or ``false``, and nothing else."""
    return one_of("true", "false")(text.lower()) == "true"


# ---------------------------------------------------------------- paths


def absolute(base: Path, text: str) -> str:
    """Return the path *text*, which is relative to *base*; "" stays ""."""
    return str((base / text).absolute()) if text else ""


def absolute_output(base: Path, text: str) -> str:
    """Do the same, except that ``-`` is the standard output; ``./-`` is a file."""
    return text if text == STDOUT else absolute(base, text)


def absolute_model(base: Path, text: str) -> str:
    """Do the same for the path in ``NAME=PATH``; a URL stays unchanged."""
    name, path = split_model(text, base)
    if not is_url(path):
        path = absolute(base, path)
    return f"{name}={path}" if name else path


def is_url(text: str) -> bool:
    """Return whether *text* begins with a scheme and two slashes."""
    return URL.match(text) is not None


def split_class(path: str) -> tuple[str, str]:
    """Return file and class of ``service.py:Digits``; the class of any other path is ""."""
    found = CLASS.fullmatch(path)
    if not found or is_url(path) or os.path.exists(path):  # noqa: PTH110 - never raises
        return path, ""
    return found[1], found[2]


def shown_url(url: str) -> str:
    """Return *url* without what may be a secret: user, query and fragment."""
    scheme, _, rest = url.partition("://")
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def split_model(text: str, base: Path = Path()) -> tuple[str, str]:
    """Return name and path of ``NAME=PATH`` or ``PATH``; an existing path may contain ``=``."""
    name, separator, path = text.partition("=")
    if not separator or "/" in name or os.path.exists(base / text):  # noqa: PTH110 - never raises
        name, path = "", text
    elif not name:
        raise ValueError(f"{text!r}: the name is empty")
    if not path:
        raise ValueError(f"{text!r}: the path is empty")
    if URL.fullmatch(path):
        raise ValueError(f"{text!r}: nothing follows the scheme")
    return name, path
