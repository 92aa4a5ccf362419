# SPDX-License-Identifier: Apache-2.0
"""Turns the options of ``servekit.settings`` into flags and into words."""

import argparse
from typing import Any

from servekit.settings import Option, options
from servekit.settings.values import size_text

__all__ = ["add_options", "default_of", "describe", "given_flags"]

METAVARS = {"bytes": "SIZE", "seconds": "SECONDS", "int": "N", "str": "TEXT"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each option; ``None`` stands for one that is not given."""
    for option in options():
        if option.is_list:
            _add(parser, option, nargs="+", action="extend", metavar=_singular(option.name))
        elif option.is_switch:
            _add(parser, option, action=argparse.BooleanOptionalAction)
        else:
            _add(parser, option, metavar=METAVARS[option.unit or type(option.default).__name__])


def _add(parser: argparse.ArgumentParser, option: Option, **how: Any) -> None:
    text = describe(option).replace("%", "%%")
    parser.add_argument(option.flag, dest=option.name, default=None, help=text, **how)


def _singular(name: str) -> str:
    """``cors_origins`` as ``ORIGIN``."""
    return name.rpartition("_")[2].removesuffix("s").upper()


def given_flags(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return what was given, by option name."""
    return {option.name: getattr(parsed, option.name) for option in options()}


def describe(option: Option) -> str:
    """``largest request body (bytes, default 10MiB)``."""
    facts = [option.unit, f"default {default_of(option)}" if default_of(option) else ""]
    known = ", ".join(filter(None, facts))
    return f"{option.help} ({known})" if known else option.help


def default_of(option: Option) -> str:
    """Return the default as one would type it; "" if there is none to speak of."""
    default = option.default
    if option.is_list or default == "":
        return ""
    if option.is_switch:
        return str(default).lower()
    return (
        size_text(default)
        if option.unit == "bytes"
        else f"{default:g}"
        if option.unit
        else str(default)
    )
