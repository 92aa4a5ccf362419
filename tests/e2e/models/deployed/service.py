# SPDX-License-Identifier: Apache-2.0
"""Answers what its worker was started with."""

import os

from servekit import Service


class Deployed(Service):
    def load(self, context):
        self.facts = {
            "replica": context.replica,
            "replicas": context.replicas,
            "options": dict(context.options),
            "max_batch_size": context.max_batch_size,
            "threads": context.threads,
            "pid": os.getpid(),
        }

    def predict(self, batch):
        return [self.facts | {name: os.environ.get(name) for name in names} for names in batch]
