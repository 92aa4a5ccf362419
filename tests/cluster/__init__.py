# SPDX-License-Identifier: Apache-2.0
"""A cluster of one machine: what Kubernetes does with the manifests that servekit writes.

It runs a Deployment as a kubelet does: in namespaces and a control group, with the user, the
volumes, the variables and the probes of the manifest. It rolls out, evicts and balances as the
controllers of a cluster do, with their delays. It needs root, and no image: the packages are
those of this environment.
"""
