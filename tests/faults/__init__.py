# SPDX-License-Identifier: Apache-2.0
"""The proof: every promise of ``docs/behaviour.md`` that has a figure, tried on a real server.

A row (``rows/``) starts ``servekit start``, does harm to it while a client keeps a ledger with
a line for each request, and yields figures: what was wanted, what was measured. ``make faults``
runs all rows and prints the table; the tests run them with smaller counts.
"""
