# SPDX-License-Identifier: Apache-2.0
"""Models described for people and programs; knows nothing of servers, processes or HTTP."""
