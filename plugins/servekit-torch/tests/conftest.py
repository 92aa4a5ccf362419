# SPDX-License-Identifier: Apache-2.0
"""Loads the service as a worker would, in this process."""

import logging

import pytest

from servekit import Context


@pytest.fixture
def load(tmp_path):
    """Return ``load(signature, **options)``, which gives a service that has loaded the model."""

    def load_model(signature=None, max_batch_size=32, **options):
        from servekit_torch.service import TorchService

        service = TorchService()
        service.signature = signature
        service.load(
            Context(
                model="m", version="1.0", directory=tmp_path, replica=0, threads=1,
                max_batch_size=max_batch_size, options=options, logger=logging.getLogger("m"),
            )
        )  # fmt: skip
        service.warm_up()
        return service

    return load_model


@pytest.fixture
def write_code(tmp_path, monkeypatch):
    """Return ``write_code(name, text)``, which writes a module of the model."""
    import sys

    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        written.append(name)

    yield write
    for name in written:
        sys.modules.pop(name, None)
