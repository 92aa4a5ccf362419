# SPDX-License-Identifier: Apache-2.0
"""Text."""

from servekit_mms.scores import encode_sentences

__all__ = ["encode_sentences"]
