# SPDX-License-Identifier: Apache-2.0
"""The loop that answers batches."""
