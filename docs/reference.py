# SPDX-License-Identifier: Apache-2.0
"""``python docs/reference.py``: writes the pages of settings and commands from the code."""

import os
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

from servekit.cli.parsing.command_table import installed_commands
from servekit.cli.parsing.exit_status import STATUSES
from servekit.cli.parsing.options import default_of
from servekit.cli.parsing.parser import create_parser
from servekit.settings import options

__all__ = ["PAGES", "cli_page", "settings_page"]

SETTINGS = """\
# Settings

<!-- Written by `python docs/reference.py`; a test holds it to the code. -->

Every option of `servekit start` is a flag, a key of `servekit.toml` and an environment variable. A
flag takes precedence over a variable, a variable over the file, and the file over the default. The
file is read only if `--config FILE` names it; `--config` itself is neither a key nor a variable.
Unknown flags and keys, and unknown variables that begin with `SERVEKIT_`, are errors.

A size is a number of bytes, optionally with a unit: `512KiB`, `10MiB`, `1GB`. A duration is in
seconds and can have a fraction. A switch is `--strict` or `--no-strict` as a flag, and `true` or
`false` elsewhere. Paths in the file are relative to the file, all others to the working directory.
A variable with a list, such as `SERVEKIT_MODELS`, is split on spaces; quote values that contain
spaces as in a shell.

The settings of a single model are tables `[models.NAME]` of the file, `--set` on the command line,
or the variable `SERVEKIT_SET`; see [settings of a deployment](deploying.md).

The settings of a plugin are tables `[plugins.NAME]` of the file, `--plugin NAME.KEY=VALUE` on the
command line, or variables `SERVEKIT_PLUGIN_NAME_KEY`; `servekit plugins` lists them.

Two secrets can only be set as variables: `SERVEKIT_PREDICT_TOKEN` and `SERVEKIT_MANAGE_TOKEN`, each
a bearer token in addition to those in the token files (see [securing](securing.md)).

| flag | key | variable | default | range | unit | meaning |
|---|---|---|---|---|---|---|
"""

EXAMPLE = """
## A file

```toml
# servekit start --config servekit.toml
models = ["digits.mar", "second=other/digits.mar"]
port = 9000
replicas = 2
max_body = "50MiB"
predict_timeout = 10

[plugins.oip]                                  # see "servekit plugins"
grpc = "0.0.0.0:8001"

[[daemons]]                                    # only in this file, see "Operating"
name = "redis"
command = ["redis-server", "--port", "6380"]
```
"""

CLI = """\
# Command line

<!-- Written by `python docs/reference.py`; a test holds it to the code. -->

The commands `init`, `build`, `inspect`, `verify`, `extract`, `migrate`, `sbom` and `completion`,
and `sign` and `encrypt` of plugins, are also available as `servekit-archive`, which is part of the
archiver, so that training machines need no server. See the [archive format](archive-format.md).
"""

OUTPUT = """
## What `servekit start` prints

The line with the URLs goes to standard output; it ends with the names of models that could not be
loaded. Everything else goes to standard error: one line for each lifecycle event, and the output of
workers with the prefix `MODEL/REPLICA | `. Control characters in that output are escaped, and a
flood of lines is truncated with a count. On a terminal, a spinner is shown for each model that is
being loaded; `NO_COLOR` disables colours. With `--log-format json`, each line is an object with
`time`, `level`, `event`, `subject`, `message` and the details of the event (`exit_code`,
`restart_s`, `url`, ...).

With `--port 0`, the line with the URLs contains the port:

```console
$ servekit start digits.mar --port 0
servekit 0.1.0 serving digits/1.0 at http://127.0.0.1:40213
```

## Exit status

| status | meaning |
|---|---|
"""


def settings_page() -> str:
    """Return ``docs/settings.md``."""
    rows = (
        f"| `{option.flag}` | `{option.name}` | `{option.variable}` "
        f"| {code(default_of(option))} | {option.range} | {option.unit} | {option.help} |\n"
        for option in options()
    )
    return SETTINGS + "".join(rows) + EXAMPLE


def cli_page() -> str:
    """Return ``docs/cli.md``."""
    rows = (f"| {status} | {meaning} |\n" for status, meaning in STATUSES.items())
    return CLI + "".join(_help_blocks()) + OUTPUT + "".join(rows)


def code(text: str) -> str:
    """Return *text* as Markdown code; nothing stays nothing."""
    return f"`{text}`" if text else ""


def _help_blocks() -> Iterator[str]:
    os.environ["COLUMNS"] = "100"  # argparse wraps to it
    table = installed_commands()
    yield f"\n## `servekit`\n\n```text\n{create_parser(table=table).format_help()}```\n"
    for command in table.commands:
        parser = _commands_of(create_parser(command, table))[command]
        yield from _command_blocks(f"servekit {command}", parser, "##")


def _command_blocks(command: str, parser: ArgumentParser, heading: str) -> Iterator[str]:
    """Yield what ``COMMAND --help`` prints, and the same of the commands in that command."""
    yield f"\n{heading} `{command}`\n\n```text\n{parser.format_help()}```\n"
    for name, inner in _commands_of(parser).items():
        yield from _command_blocks(f"{command} {name}", inner, "###")


def _commands_of(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    actions = parser._actions  # noqa: SLF001 - argparse shows them in no other way
    return next((dict(each.choices) for each in actions if isinstance(each, _SubParsersAction)), {})


PAGES = {"settings.md": settings_page, "cli.md": cli_page}


def main() -> None:
    """Write the pages beside this file."""
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
