# SPDX-License-Identifier: Apache-2.0
"""The worker process: one loaded service, answering batches.

Read ``__main__.py`` for the life of the process and ``predictor.py`` for the way of a
batch: decode each item, predict once, encode each output.
"""
