# SPDX-License-Identifier: Apache-2.0
"""``serve``: the command that SageMaker runs in a container. It becomes ``servekit start``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Final, NoReturn

from servekit.errors import StartupError
from servekit.settings import find_models, parse_models
from servekit_sagemaker.environment import MODEL, SageMakerEnvironment, settings_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from servekit.extension.commands import Run

__all__ = ["main", "serve"]

EPILOG: Final = """\
Settings are variables: SERVEKIT_REPLICAS=2.

examples:
  servekit serve                         the model in /opt/ml/model, on port 8080
  SAGEMAKER_MULTI_MODEL=true servekit serve
"""
STARTUP_FAILED: Final = 3  #: exit status, as that of ``servekit start``


def main() -> int:
    """Run the console script ``serve``; return only if the server cannot be started."""
    try:
        start()
    except StartupError as error:
        sys.stderr.write(f"serve: {error}\n")
    return STARTUP_FAILED


def serve(parser: argparse.ArgumentParser) -> Run:
    """Describe ``servekit serve``, which takes no arguments; return what runs it."""
    parser.epilog = EPILOG
    return lambda _parsed: start()


def start() -> NoReturn:
    """Replace this process by the server, so that the signals of the container reach it.

    :raises StartupError: there is no model to serve, or several and none is named.
    """
    environment = dict(os.environ)
    platform = SageMakerEnvironment.of(environment)
    environment |= settings_of(environment)
    if platform.is_multi_model:
        if not environment.get("SERVEKIT_STATE"):
            environment["SERVEKIT_STATE"] = _empty_state(environment)
        models: list[str] = []
    else:
        models = models_of(platform, environment)
    command = [sys.executable, "-P", "-m", "servekit", "start", *models]
    os.execve(sys.executable, command, environment)  # noqa: S606 - not a shell


def models_of(platform: SageMakerEnvironment, environment: Mapping[str, str]) -> list[str]:
    """Return the models in ``/opt/ml/model``, as arguments of ``servekit start``.

    There may be none if the settings of the server name models.

    :raises StartupError: there is none, or none has the name of the one that is to answer.
    """
    directory = platform.base / "model"
    paths = find_models(directory)
    if not paths:
        if environment.get("SERVEKIT_MODELS") or environment.get("SERVEKIT_MODEL_STORE"):
            return []
        reason = "no archive and no model directory; model.tar.gz is unpacked there"
        raise StartupError(f"{directory}: {reason}")
    model = environment.get(MODEL, "")
    if len(paths) == 1 and not model:
        return paths
    names = {source.provisional_name: source.path for source in parse_models(paths)}
    if model not in names:
        listed, which = ", ".join(names), model or "none of them"
        raise StartupError(f"{directory} has {listed}; {MODEL} names {which}")
    return [f"{name}={path}" if name == model else path for name, path in names.items()]


def _empty_state(environment: Mapping[str, str]) -> str:
    """Return the path of a state file, which a server needs to start without a model."""
    port = environment.get("SERVEKIT_PORT", "")
    path = Path(gettempdir()) / f"servekit-sagemaker-{port}.json"
    path.unlink(missing_ok=True)  # an earlier server left it; SageMaker loads its models again
    return str(path)
