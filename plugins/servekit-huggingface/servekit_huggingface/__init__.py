# SPDX-License-Identifier: Apache-2.0
"""Serves transformers directories: classification, embeddings and generation."""
