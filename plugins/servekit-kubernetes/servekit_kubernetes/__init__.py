# SPDX-License-Identifier: Apache-2.0
"""``servekit kube render``: manifests for Kustomize, a Helm chart, and a runtime of KServe."""
