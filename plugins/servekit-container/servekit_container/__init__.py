# SPDX-License-Identifier: Apache-2.0
"""Writes what a container image of models is built from; ``context.py`` puts it together.

Nothing here builds or starts an image, and nothing imports code of a model: what is written
follows from the manifests, and from the packages that are installed here.
"""
