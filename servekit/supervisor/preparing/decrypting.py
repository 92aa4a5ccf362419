# SPDX-License-Identifier: Apache-2.0
"""Encrypted archives: plugins decrypt them, into memory. Runs in: the prepare child."""

import traceback
from pathlib import Path
from typing import Final

from servekit.errors import StartupError
from servekit.supervisor.os.memory_directory import make_private
from servekit.supervisor.preparing.messages import PrepareRequest

__all__ = ["decrypt"]

ZIP: Final = b"PK"  #: how every archive begins
ENCRYPTED: Final = b"servekit-enc-"  #: how those of servekit-encryption begin


def decrypt(path: Path, shown: str, request: PrepareRequest) -> Path | None:
    """Return the archive that a plugin decrypts from *path*, in the memory of *request*.

    :param shown: what messages call it.
    :return: ``None`` if the file is an archive, or one that no plugin decrypts.
    :raises StartupError: its key is not known, it was changed, or the plugin failed.
    """
    if not path.is_file() or _begins(path, ZIP):
        return None
    from servekit.builtin.archive_keys import GivenKeys
    from servekit.plugins import create_plugin_manager

    keys = GivenKeys(request.archive_keys)
    hooks = create_plugin_manager(keys, required=request.required_plugins).hook

    def find_key(key_id: str) -> bytes:
        key: bytes | None = hooks.find_archive_key(key_id=key_id)
        if key is None:
            raise StartupError(f"is encrypted with the key {key_id}, which is not known")
        return key

    target = Path(request.memory) / "archive.mar"
    try:
        make_private(target.parent)
        done = hooks.decrypt_archive(path=path, target=target, find_key=find_key)
    except (StartupError, OSError) as error:
        raise StartupError(f"{shown}: {error}") from error
    except Exception as error:
        traceback.print_exc()
        raise StartupError(f"{shown}: {type(error).__name__}: {error}") from error
    if not done and _begins(path, ENCRYPTED):
        raise StartupError(f"{shown}: is encrypted; no installed plugin decrypts it")
    return target if done else None


def _begins(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start
