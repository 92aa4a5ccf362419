# SPDX-License-Identifier: Apache-2.0
"""Scores."""

from servekit_mms.scores import top_probability

__all__ = ["top_probability"]
