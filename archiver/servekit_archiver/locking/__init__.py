# SPDX-License-Identifier: Apache-2.0
"""Locks: the exact packages of a model's requirements, resolved by uv, downloaded by pip."""
