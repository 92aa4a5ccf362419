# SPDX-License-Identifier: Apache-2.0
"""A model directory: what it says of its model, and which of its files go into an archive."""
