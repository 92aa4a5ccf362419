# SPDX-License-Identifier: Apache-2.0
"""The hooks of this plugin: ``sign``, ``verify --key`` and the rule ``signed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servekit import hookimpl
from servekit.extension import Command

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable

    from servekit_archiver.commands import Check

    from servekit.extension import ArchiveInfo, Kept, Policy, Refused

__all__ = ["RULE", "accept_archive", "extend_verify", "register_commands"]

RULE = "signed"


@hookimpl
def register_commands() -> Iterable[Command]:
    """Offer ``servekit-archive sign``."""
    target = "servekit_signing.cli:sign"
    return [Command("sign", "sign an archive with a private key", target, is_of_archives=True)]


@hookimpl
def extend_verify(parser: ArgumentParser) -> Check:
    """Add ``--key`` to ``servekit-archive verify``."""
    from servekit_signing.cli import extend

    return extend(parser)


@hookimpl
def accept_archive(archive: ArchiveInfo, policy: Policy) -> Refused | Kept | None:
    """Refuse what no trusted key has signed, if the policy says so."""
    if RULE not in policy.rules:
        return None
    from servekit_signing.rule import judge

    return judge(archive, policy.trusted_keys)
