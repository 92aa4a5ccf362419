# SPDX-License-Identifier: Apache-2.0
"""Finds pickles in the files of a model, and what they import, without loading them."""
