# SPDX-License-Identifier: Apache-2.0
"""One request and its response, whichever version of HTTP carries them."""
