# SPDX-License-Identifier: Apache-2.0
"""Workflows of TorchServe: archives ``.war``, whose nodes become the stages of a pipeline.

archive     the archive, its specification, and the archives of its models
offer       stages and steps, as a model.toml has them
node        the services of the stages
"""
