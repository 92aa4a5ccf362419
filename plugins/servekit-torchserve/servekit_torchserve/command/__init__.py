# SPDX-License-Identifier: Apache-2.0
"""``servekit torchserve``: starts a server as TorchServe does, by its flags and properties.

properties  the file, and the variables that win over it
keys        what becomes of each key
models      which archives are served
tokens      key_file.json
start       the command
"""
