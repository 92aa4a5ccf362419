# SPDX-License-Identifier: Apache-2.0
"""Signatures of archives, in the format of OpenSSF model-signing."""
