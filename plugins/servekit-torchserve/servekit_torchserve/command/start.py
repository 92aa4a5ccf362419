# SPDX-License-Identifier: Apache-2.0
"""``servekit torchserve``: the flags of TorchServe. It becomes ``servekit start``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, NoReturn

from servekit.errors import StartupError
from servekit_torchserve.command.keys import settings_of
from servekit_torchserve.command.models import (
    options_of_models,
    served_models,
    settings_of_models,
)
from servekit_torchserve.command.properties import read_properties
from servekit_torchserve.command.tokens import make_tokens

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from servekit.extension import MigrationRow
    from servekit.extension.commands import Run

__all__ = ["StartPlan", "configure", "plan", "report"]

EPILOG: Final = """\
The server runs in the foreground, and SIGTERM stops it. Every other setting of servekit is a
variable, such as SERVEKIT_LOG_FORMAT=json, and wins over config.properties.

examples:
  servekit torchserve --model-store store --models resnet=resnet.mar
  servekit torchserve --model-store store --models all --ts-config config.properties --ncs
  servekit torchserve --ts-config config.properties --report
"""
STATE: Final = "SERVEKIT_STATE"
TOKENS: Final = "SERVEKIT_PLUGIN_TORCHSERVE_TOKENS"
MODEL_API: Final = "SERVEKIT_PLUGIN_TORCHSERVE_MODEL_API"
MODEL_STORE: Final = "SERVEKIT_PLUGIN_TORCHSERVE_MODEL_STORE"
MANAGEMENT: Final = (
    "SERVEKIT_PLUGIN_TORCHSERVE_MANAGEMENT",
    "SERVEKIT_PLUGIN_TORCHSERVE_GRPC_MANAGEMENT",
)
TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The server that is started."""

    models: Sequence[str]  #: arguments of ``servekit start``
    assignments: Sequence[str]  #: arguments of its ``--set``
    settings: Mapping[str, str]  #: variables
    has_tokens: bool  #: whether clients need tokens
    rows: Sequence[MigrationRow] = field(default_factory=list)  #: what became of each property


def configure(parser: argparse.ArgumentParser) -> Run:
    """Add the flags of TorchServe, and return what runs the command."""
    parser.epilog = EPILOG
    parser.add_argument("--model-store", type=Path, metavar="DIR", help="directory of archives")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="[NAME=]ARCHIVE",
        help="archives of the model store, paths or URLs; or all",
    )
    parser.add_argument("--ts-config", type=Path, metavar="FILE", help="config.properties")
    parser.add_argument(
        *("--no-config-snapshots", "--ncs"),
        action="store_true",
        help="forget at the end what was changed at run time",
    )
    parser.add_argument(
        *("--disable-token-auth", "--dt"),
        action="store_true",
        help="answer everybody who reaches the addresses",
    )
    parser.add_argument(
        "--enable-model-api",
        action="store_true",
        help="register and unregister models by the management API",
    )
    parser.add_argument("--start", action="store_true", help="the default")
    parser.add_argument("--foreground", action="store_true", help="the default")
    parser.add_argument(
        "--report", action="store_true", help="print what becomes of config.properties, and end"
    )
    return run


def run(parsed: argparse.Namespace) -> int:
    """Start the server, or print what becomes of the properties.

    :raises StartupError: a setting or an archive is not valid.
    """
    planned = plan(parsed, os.environ)
    if not parsed.report:
        start(planned)
    print("\n".join(report(planned.rows)))
    return 0


def start(planned: StartPlan) -> NoReturn:
    """Replace this process by the server, so that signals reach it.

    :raises StartupError: the file of tokens cannot be written.
    """
    lines = [*report(without(planned.rows)), *warnings_of(planned)]
    sys.stderr.writelines(f"servekit: {line}\n" for line in lines)
    environment = {**planned.settings, **os.environ}
    if STATE not in environment:  # a server needs one to start without a model
        environment[STATE] = f"{mkdtemp(prefix='servekit-torchserve-')}/state.json"
    if os.environ.get("SERVEKIT_PORT") or os.environ.get("SERVEKIT_HOST"):
        environment.pop("SERVEKIT_BIND", None)  # they are in place of that of the file
    if planned.has_tokens:
        environment |= make_tokens(Path.cwd(), environment)
    more = ["--set", *planned.assignments] if planned.assignments else []
    command = [sys.executable, "-P", "-m", "servekit", "start", *planned.models, *more]
    os.execve(sys.executable, command, environment)  # noqa: S606 - not a shell


def plan(parsed: argparse.Namespace, environment: Mapping[str, str]) -> StartPlan:
    """Return the server that the flags and the properties describe.

    :raises StartupError: a setting or an archive is not valid.
    """
    path = parsed.ts_config or Path(environment.get("TS_CONFIG_FILE") or "config.properties")
    is_given = parsed.ts_config is not None or "TS_CONFIG_FILE" in environment
    properties = read_properties(path if is_given or path.is_file() else None, environment)
    store = parsed.model_store or _path(properties.get("model_store"))
    if store is None:
        raise StartupError("--model-store: needed, here or as model_store of config.properties")
    store = store.absolute()
    settings, rows = settings_of(properties)
    asked = parsed.models or _names(properties.get("load_models", ""))
    models = served_models(asked, store)
    assignments, more = settings_of_models(properties.get("models", ""), models)
    options, most = options_of_models(properties, models)
    settings[MODEL_STORE] = str(store)
    if parsed.enable_model_api:
        settings[MODEL_API] = TRUE
    is_open = parsed.disable_token_auth or (
        properties.get("disable_token_authorization", "").lower() == TRUE
    )
    settings[TOKENS] = str(not is_open).lower()
    if not parsed.no_config_snapshots and os.access(store, os.W_OK):
        settings[STATE] = str(store / ".servekit-state.json")
    given = [*assignments, *options]
    return StartPlan(models, given, settings, not is_open, [*rows, *more, *most])


def report(rows: Sequence[MigrationRow]) -> list[str]:
    """Return a line for each row: ``KEY=VALUE: SETTING (NOTE)``."""
    return [f"{row.before}: {row.now or 'no counterpart'}{_note(row)}" for row in rows]


def warnings_of(planned: StartPlan) -> list[str]:
    """Return a line for each address of management that others reach and that needs no token."""
    if planned.has_tokens:
        return []
    addresses = [planned.settings.get(variable, "") for variable in MANAGEMENT]
    return [
        f"{address}: everybody who reaches it manages the server, since tokens are disabled"
        for address in addresses
        if address and not is_loopback(address)
    ]


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches *address*, HOST:PORT; false for names of hosts."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def without(rows: Sequence[MigrationRow]) -> list[MigrationRow]:
    """Return the *rows* that have no counterpart."""
    return [row for row in rows if not row.now]


def _note(row: MigrationRow) -> str:
    return f" ({row.note})" if row.note else ""


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip() not in ("", "none", "NONE")]
