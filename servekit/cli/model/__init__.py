# SPDX-License-Identifier: Apache-2.0
"""Models that are not served: their manifests, interfaces and assets."""
