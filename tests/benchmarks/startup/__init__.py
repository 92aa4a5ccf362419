# SPDX-License-Identifier: Apache-2.0
"""What a start costs and where it goes: imports by process, time to the first answer, memory.

    python -m tests.benchmarks.startup
    python -m tests.benchmarks.startup --rounds 9 --json figures.json

CPU time says more than wall-clock time here: a start is all CPU, so on a busy machine the
wall-clock grows while the CPU time stays.
"""
