# SPDX-License-Identifier: Apache-2.0
"""Serves scikit-learn estimators kept in joblib or skops files."""
