# SPDX-License-Identifier: Apache-2.0
"""``python -m servekit.cli.parsing.reference DOCS``: writes the pages that follow from the code."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from servekit.cli.parsing.command_table import CommandTable, installed_commands
from servekit.cli.parsing.exit_status import STATUSES
from servekit.cli.parsing.options import default_of
from servekit.cli.parsing.parser import create_parser
from servekit.settings import options

__all__ = ["PAGES", "cli_page", "settings_page"]

SETTINGS = """\
# Settings

<!-- Written by `python -m servekit.cli.parsing.reference docs`; a test holds it to the code. -->

Every option of `servekit start` is a flag, a key of `servekit.toml` and a variable. A flag wins
over a variable, a variable over the file, the file over the default. An unknown flag, key or
variable that begins with `SERVEKIT_` is an error.

A size is a number of bytes, or takes a unit: `512KiB`, `10MiB`, `1GB`. A duration is in seconds and
may have a fraction. A switch is `--strict` or `--no-strict`, and `true` or `false` elsewhere.
Paths in the file are relative to the file, all others to the working directory. A
variable that is a list, `SERVEKIT_MODELS`, is parted by spaces; what holds spaces is quoted as in a
shell.

Two secrets are variables and nothing else: `SERVEKIT_PREDICT_TOKEN` and `SERVEKIT_MANAGE_TOKEN`, a
bearer token each, beside those of the token files (see [securing](securing.md)).

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

[[daemons]]                                    # in the file alone, see operating
name = "redis"
command = ["redis-server", "--port", "6380"]
```
"""

CLI = """\
# Command line

<!-- Written by `python -m servekit.cli.parsing.reference docs`; a test holds it to the code. -->

`init`, `build`, `inspect`, `verify` and `extract` are commands of `servekit-archive` too, which
comes with the archiver alone: machines that train need no server. See the
[archive format](archive-format.md).
"""

OUTPUT = """
## What `servekit start` prints

The line with the URLs goes to stdout, with the names of models that could not be loaded at its end;
everything else goes to stderr: one line for each event of the
lifecycle, and what workers print, each line led by `MODEL/REPLICA | `. Control characters in it are
escaped, and a flood is cut short with a count. On a terminal each model that loads has a spinner;
`NO_COLOR` turns colours off. With `--log-format json` each line is an object with `time`, `level`,
`event`, `subject`, `message` and what the event knows (`exit_code`, `restart_s`, `url`, ...).

With `--port 0` the port is in the line with the URLs:

```console
$ servekit start digits.mar --port 0
servekit 0.1.0 serving digits/1.0 at http://127.0.0.1:40213  (docs at /docs)
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
        yield f"\n## `servekit {command}`\n\n```text\n{command_help(command, table)}```\n"


def command_help(command: str, table: CommandTable) -> str:
    """Return what ``servekit COMMAND --help`` prints."""
    actions = create_parser(command, table)._actions  # noqa: SLF001 - argparse shows them in no other way
    commands = next(action for action in actions if action.dest == "command")
    return str(commands.choices[command].format_help())  # type: ignore[index]


PAGES = {"settings.md": settings_page, "cli.md": cli_page}


def main() -> None:
    """Write the pages into the directory given."""
    for name, page in PAGES.items():
        (Path(sys.argv[1]) / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
