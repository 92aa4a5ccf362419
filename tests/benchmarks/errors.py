# SPDX-License-Identifier: Apache-2.0
"""What can stop a benchmark.

BenchmarkError
├── Missing        a program or an environment that the run needs is not there
├── NotReady       a server ended, or stayed silent, before it was measured
├── WrongAnswer    a server answered something else than the sum
└── WrkFailed      the load generator failed, or said something we cannot read
"""


class BenchmarkError(Exception):
    """Base of every error that ends a run with one line instead of a traceback."""


class Missing(BenchmarkError):
    """A program or an environment that the run needs is not there."""


class NotReady(BenchmarkError):
    """A server ended, or stayed silent, before it was measured."""


class WrongAnswer(BenchmarkError):
    """A server answered something else than the sum of its input."""


class WrkFailed(BenchmarkError):
    """The load generator failed, or said something that cannot be read."""
