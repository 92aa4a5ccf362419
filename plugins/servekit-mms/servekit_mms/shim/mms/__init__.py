# SPDX-License-Identifier: Apache-2.0
"""The names of MXNet Model Server that code in its archives imports."""

__version__ = "0.4.0"
