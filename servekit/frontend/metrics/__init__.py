# SPDX-License-Identifier: Apache-2.0
"""The front-end's counters, and everything that ``/metrics`` shows."""
