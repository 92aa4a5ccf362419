# SPDX-License-Identifier: Apache-2.0
"""One batch: decode, predict, encode."""
