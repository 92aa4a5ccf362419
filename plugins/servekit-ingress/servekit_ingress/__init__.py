# SPDX-License-Identifier: Apache-2.0
"""``servekit ingress``: configurations of HAProxy and Envoy for several servers.

Another command that finds servers in another way adds ``add_arguments`` of ``command`` to its
parser, and calls ``run`` with its ``Discovery``. ``publish`` and ``replace_file`` of ``publishing``
keep other files up to date.
"""
