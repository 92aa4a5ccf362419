# SPDX-License-Identifier: Apache-2.0
"""Loads the service as a worker would, in this process."""

import logging

import pytest

from servekit import Context


@pytest.fixture
def load(tmp_path):
    """Return ``load(model, **options)``: *model* saved, and a service that has loaded it."""
    import joblib  # here, for tests of other plugins: to import sklearn takes seconds
    from servekit_sklearn.service import SklearnService
    from skops import io

    def save_and_load(model=None, *, suffix=".joblib", signature=None, threads=1, **options):
        if model is not None:
            save = joblib.dump if suffix == ".joblib" else io.dump
            save(model, tmp_path / f"model{suffix}")
        service = SklearnService()
        service.signature = signature
        service.load(_context(tmp_path, threads, options))
        return service

    return save_and_load


def _context(directory, threads, options):
    return Context(
        model="m", version="1.0", directory=directory, replica=0, max_batch_size=32,
        threads=threads, options=options, logger=logging.getLogger("m"),
    )  # fmt: skip
