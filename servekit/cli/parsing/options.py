# SPDX-License-Identifier: Apache-2.0
"""Turns the options of ``servekit.settings`` into flags and into words."""

import argparse
from typing import Any

from servekit.settings import Option, options
from servekit.settings.values import size_text

__all__ = ["OTHERS", "add_options", "default_of", "describe", "given_flags", "grouped"]

METAVARS = {"bytes": "SIZE", "seconds": "SECONDS", "int": "N", "str": "TEXT"}
#: placeholders of options that are special strings
NAMED = {
    **dict.fromkeys(("predict_token_file", "manage_token_file", "access_log", "state"), "FILE"),
    **dict.fromkeys(("tls_certificate", "tls_key", "tls_client_ca"), "FILE"),
    **dict.fromkeys(("cache_dir", "run_dir", "log_dir"), "DIR"),
    "host": "ADDRESS",
    "bind": "ADDRESS",
    "socket_mode": "MODE",
    "manage": "HOST:PORT",
    "worker_user": "NAME",
    "pass_env": "VARIABLE",
    "trusted_proxies": "ADDRESS",
    "policy": "RULE,RULE,...",
    "trusted_keys": "PATH",
    "archive_keys": "SOURCE",
    "compression": "CODING",
    "log_format": "FORMAT",
    "log_level": "LEVEL",
}
#: other spellings of flags
ALSO = {"manage": ("--management",)}
#: the headings of ``servekit start --help`` and the options below each; the rest comes last
GROUPS = {
    "models": "models model_store watch replicas strict reload dev install_requirements"
    " fetch_assets cache_dir state",
    "network": "host port bind socket_mode front_ends http2 compression compression_min"
    " cors_origins trusted_proxies",
    "access": "predict_token_file manage_token_file manage require_plugins"
    " policy trusted_keys archive_keys"
    " tls_certificate tls_key tls_client_ca",
    "sizes": "max_body max_answer max_header max_target max_connections queue",
    "time": "predict_timeout load_timeout header_timeout body_timeout body_rate send_timeout"
    " keep_alive wake_timeout drain_delay grace",
    "memory": "models_memory memory queue_memory large_body arena",
    "jobs": "jobs jobs_size job_ttl",
    "workers": "worker_user worker_memory worker_files pass_env busy_poll",
    "logs and files": "log_level log_format log_dir log_file_size log_files access_log keep_bodies"
    " run_dir",
}
OTHERS = "others"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each option; ``None`` stands for one that is not given."""
    for title, members in grouped().items():
        group = parser.add_argument_group(title)
        for option in members:
            _add_flag(group, option)


def grouped() -> dict[str, list[Option]]:
    """Return the options below their headings, in the order of ``GROUPS``."""
    left = {option.name: option for option in options()}
    found = {title: [left.pop(name) for name in names.split()] for title, names in GROUPS.items()}
    return found | ({OTHERS: list(left.values())} if left else {})


def _add_flag(group: argparse._ArgumentGroup, option: Option) -> None:
    if option.is_list:
        metavar = NAMED.get(option.name) or _singular(option.name)
        _add(group, option, nargs="+", action="extend", metavar=metavar)
    elif option.is_switch:
        _add(group, option, action=argparse.BooleanOptionalAction)
    else:
        kind = METAVARS[option.unit or type(option.default).__name__]
        _add(group, option, metavar=NAMED.get(option.name, kind))


def _add(group: argparse._ArgumentGroup, option: Option, **how: Any) -> None:
    text = describe(option).replace("%", "%%")
    flags = (option.flag, *ALSO.get(option.name, ()))
    group.add_argument(*flags, dest=option.name, default=None, help=text, **how)


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
