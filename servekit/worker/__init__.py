# SPDX-License-Identifier: Apache-2.0
"""The worker process: one loaded service that answers batches.

``__main__.py`` is the life of the process. ``prediction/predictor.py`` is the way of a batch:
decode each item, predict once, encode each output.
"""
