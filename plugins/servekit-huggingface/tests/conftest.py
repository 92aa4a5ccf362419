# SPDX-License-Identifier: Apache-2.0
"""Tiny models, and services of them in this process."""

import importlib.util
import logging
from pathlib import Path

import pytest

from servekit import Context


@pytest.fixture(scope="session")
def tiny():
    """Return the module that writes tiny models."""
    pytest.importorskip("torch")
    path = Path(__file__).with_name("tiny.py")
    spec = importlib.util.spec_from_file_location("tiny_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def load():
    """Return ``load(service, directory, **options)``, which makes and loads a service."""

    def load(kind, directory, **options):
        service = kind()
        service.load(
            Context(
                model="tiny",
                version="1.0",
                directory=directory,
                replica=0,
                max_batch_size=8,
                threads=1,
                options=options,
                logger=logging.getLogger("tiny"),
            )
        )
        return service

    return load
