# SPDX-License-Identifier: Apache-2.0
"""Serves gradient-boosted trees: models of XGBoost and LightGBM, from their own files."""
