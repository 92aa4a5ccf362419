# SPDX-License-Identifier: Apache-2.0
"""The models: their versions, replicas and routes."""
