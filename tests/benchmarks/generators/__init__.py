# SPDX-License-Identifier: Apache-2.0
"""The load generator of ``servekit bench`` beside wrk and perf_analyzer, at the same load."""
