# SPDX-License-Identifier: Apache-2.0
"""Batches that a handler takes apart."""

from servekit_torchserve.micro_batches import MicroBatching

__all__ = ["MicroBatching"]
