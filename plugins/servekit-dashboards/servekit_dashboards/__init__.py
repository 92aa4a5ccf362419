# SPDX-License-Identifier: Apache-2.0
"""``servekit dashboards``: files for Grafana, Prometheus and Kubernetes, from tables in Python."""
