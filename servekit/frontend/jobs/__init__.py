# SPDX-License-Identifier: Apache-2.0
"""Predictions to come back for (``Prefer: respond-async``): asked for, kept, fetched."""
