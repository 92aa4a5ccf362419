# SPDX-License-Identifier: Apache-2.0
"""Types for the annotations of ``predict``. Light to import."""

from servekit.types.arrays import Array

__all__ = ["Array"]
