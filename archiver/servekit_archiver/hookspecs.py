# SPDX-License-Identifier: Apache-2.0
"""The hooks of the archiver: model directories that say little, and more for its command line."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pluggy

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from servekit_archiver.commands import Check, Command
    from servekit_archiver.migration import MigrationRow

__all__ = [
    "explain_migration",
    "extend_verify",
    "hookimpl",
    "hookspec",
    "recognise_model",
    "register_commands",
    "unpack_archive",
]

hookspec = pluggy.HookspecMarker("servekit")
hookimpl = pluggy.HookimplMarker("servekit")


@hookspec
def recognise_model(directory: Path) -> Mapping[str, Any] | None:
    """Offer the ``model.toml`` keys of a directory that has no ``model.toml``, or no ``service``.

    Runs in: the archiver, when it builds; the server, when it starts a directory. Must not
    import or unpickle anything of *directory*, nor write into it.

    :return: keys such as ``{"service": "onnx", "signature": {...}}``, or ``None`` if the
        plugin does not know such models. They fill only what ``model.toml`` leaves out. A path
        below *directory* as ``archive``, in place of ``service``, says that the model is this
        archive; the other keys then go before those of its manifest. Two plugins
        that recognise one directory is an ``ArchiveError``; the order of plugins never decides.
        A format that may contain the files of others, such as that of MLflow, goes before them:
        its hook is marked ``@hookimpl(tryfirst=True)``.
    """


@hookspec(firstresult=True)
def unpack_archive(
    path: Path, directory: Path, progress: Callable[[int, int], None]
) -> Literal[True] | None:
    """Unpack an archive of another format.

    Runs in: the prepare child of the server, ``servekit check`` and other commands that look at a
    model. May block. Asked of files that are not archives of servekit, once for each content: the
    result is kept, and ``recognise_model`` is asked for it each time. ``open_foreign_archive``
    of ``servekit_archiver`` reads zip and tar files safely.

    :param path: the file; it may be anything.
    :param directory: a new directory, for regular files only.
    :param progress: to be called with the bytes done and in all now and then; without it the load
        timeout ends the preparation.
    :return: ``True`` if *directory* was filled; ``None`` if the plugin does not know such files.
        The first plugin that returns ``True`` decides. An exception is the reason why the model
        cannot be loaded.
    """


@hookspec
def register_commands() -> Iterable["Command"]:  # type: ignore[empty-body]
    """Offer commands: ``servekit NAME ...``, and ``servekit-archive NAME ...`` if they are for it.

    Runs in: the process of ``servekit`` or ``servekit-archive``, for ``--help`` and for a command
    that does not come with it; never for one that does, so ``servekit start`` runs no code of
    plugins.

    :return: a ``servekit.extension.Command`` for each. Its target is a function that gets the
        ``argparse.ArgumentParser`` of the command, adds its arguments, and returns what runs it:
        a function that gets the parsed arguments and returns the exit status. A command that comes
        with servekit is never replaced; a name that two plugins offer runs neither, and the error
        names both.
    """


@hookspec
def extend_verify(parser: "ArgumentParser") -> "Check":  # type: ignore[empty-body]
    """Add options to ``servekit-archive verify``, and return what checks an archive by them.

    Runs in: the process of ``servekit-archive`` or ``servekit``, for the command ``verify``.

    :return: a function that gets the open archive, whose content has been compared with its
        manifest, and the parsed arguments. It returns lines to print, none if its options are not
        given; an ``ArchiveError`` is the reason why the archive is refused.
    """


@hookspec
def explain_migration(directory: Path) -> "Iterable[MigrationRow] | None":
    """Say what became of each setting of a model in another format.

    Runs in: the process of ``servekit migrate``, which prints it, when ``recognise_model`` has
    offered keys for *directory*. Must not import or unpickle anything of it.

    :return: a ``servekit.extension.MigrationRow`` for each thing that the format says, also for
        those that have no counterpart; ``None`` if the plugin does not know such models.
    """
