# SPDX-License-Identifier: Apache-2.0
"""Measures model servers over HTTP: ``servekit bench``."""
