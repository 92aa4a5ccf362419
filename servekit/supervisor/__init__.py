# SPDX-License-Identifier: Apache-2.0
"""The supervisor: owns every long-lived thing and keeps every replica filled.

One small single-threaded event loop. It imports the standard library and msgspec only;
no model, plugin or archive code ever runs in it.
"""
