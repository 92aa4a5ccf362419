# SPDX-License-Identifier: Apache-2.0
"""A model: its replicas, routes and versions."""
