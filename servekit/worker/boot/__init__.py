# SPDX-License-Identifier: Apache-2.0
"""From an archive to a loaded service, its description and its proof."""
