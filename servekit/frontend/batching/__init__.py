# SPDX-License-Identifier: Apache-2.0
"""Queues, batches, and the channels to the workers."""
