# SPDX-License-Identifier: Apache-2.0
"""The models' own environments: one for each lock or requirements, shared by all who need it.

CACHE/environments/KEY/                    a virtual environment
CACHE/environments/KEY/environment.json    written last: it is complete; its time is the last use
CACHE/environments/KEY.lock                held while a process builds or removes it
CACHE/environments/KEY.log                 the output of the tools that built it

KEY is a digest of the requirements or the lock, the Python, the platform and the server's packages.
"""
