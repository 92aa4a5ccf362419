# SPDX-License-Identifier: Apache-2.0
"""Maps paths to batchers and pipelines."""
