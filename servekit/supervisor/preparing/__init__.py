# SPDX-License-Identifier: Apache-2.0
"""From the path of an archive to a directory that a worker can load."""
