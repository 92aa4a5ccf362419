# SPDX-License-Identifier: Apache-2.0
"""The worker process itself: signals, limits, memory, log."""
