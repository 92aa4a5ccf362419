# SPDX-License-Identifier: Apache-2.0
"""Serves MLflow models, and answers MLflow's clients."""
