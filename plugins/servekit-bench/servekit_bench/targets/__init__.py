# SPDX-License-Identifier: Apache-2.0
"""The servers that are measured, and the requests for them.

addresses    URLs and Unix sockets
asking       single requests: descriptions, health, one try of each input
inputs       bodies of files, packaged examples, API descriptions
opening      a running server, or one that is started for an archive
"""

from servekit_bench.targets.opening import OpenTarget, TargetOptions, opened

__all__ = ["OpenTarget", "TargetOptions", "opened"]
