# SPDX-License-Identifier: Apache-2.0
"""The names that handlers import of TorchServe, in workers of its archives."""

__version__ = "0.12.0"
