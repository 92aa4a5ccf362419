# SPDX-License-Identifier: Apache-2.0
"""Which batcher or pipeline answers at which path."""
