# SPDX-License-Identifier: Apache-2.0
"""Makes the version before the default version the default again."""

from servekit.supervisor.models.model import Model
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import (
    CONFLICT,
    UNPROCESSABLE,
    OperatedServer,
    load_version,
    prepare_version,
    version_of,
)
from servekit.supervisor.operations.swapping import kept_version, let_go

__all__ = ["check_roll_back", "roll_back"]

KEEP_S = 60.0  #: how long the version that is left stays loaded, as after a swap


def check_roll_back(model: Model) -> None:
    """Check that there is a version to go back to.

    :raises OperationFailed: there is none.
    """
    version_of(model, "")
    if model.previous is None:
        raise OperationFailed(CONFLICT, f"{model.name} has had no other default version")


async def roll_back(server: OperatedServer, model: Model, progress: Progress) -> None:
    """Let the version before answer, at once if it is still loaded.

    :raises OperationFailed: it cannot be loaded, or its source holds another version now.
    """
    wanted, current = model.previous, version_of(model, "")
    assert wanted is not None
    version = kept_version(model) or model.versions.find(wanted.version)
    if version is None or version is current:
        version = await prepare_version(model, wanted.source, progress)
        if version.version != wanted.version:
            version.files.release()
            place = wanted.source.shown
            reason = f"{place} holds version {version.version} now, not {wanted.version}"
            raise OperationFailed(UNPROCESSABLE, reason)
        await load_version(server, model, version, progress, current)
    progress.row.version = version.version
    with progress.step("switch", f"{version.version} is the default version"):
        model.make_default(version)
    if model.kept is version:
        model.keep(None)
    await let_go(server, model, current, KEEP_S, progress)
