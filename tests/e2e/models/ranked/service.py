# SPDX-License-Identifier: Apache-2.0
"""Ranks that rank 0 tells what to do: each input is a command for one of them."""

import os
from multiprocessing.connection import Client, Listener
from threading import Event

from servekit import Service

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")
COMMANDS = {"crash": lambda: os._exit(7), "raise": lambda: 1 / 0, "hang": lambda: Event().wait()}


class Ranked(Service):
    def load(self, context):
        self.facts = {name: os.environ.get(name) for name in NAMES} | {
            "pid": os.getpid(), "rank": context.rank, "world_size": context.world_size,
            "threads": context.threads, "cpus": sorted(os.sched_getaffinity(0)),
        }  # fmt: skip
        if context.options.get("broken_rank") == context.rank:
            raise ValueError("no shard")
        if context.options.get("slow_rank") == context.rank:
            Event().wait()
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if context.rank:
            self.peers = [connect(address)]
            return
        with Listener(address, backlog=context.world_size) as listener:
            self.peers = [listener.accept() for _ in range(1, context.world_size)]

    def predict(self, batch):
        return [self.everybody(command) for command in batch]

    def everybody(self, command):
        for peer in self.peers:
            peer.send(command)
        return sorted(
            [self.facts, *(peer.recv() for peer in self.peers)], key=lambda facts: facts["rank"]
        )

    def follow(self):
        (rank_0,) = self.peers
        while True:
            try:
                command = rank_0.recv()
            except EOFError:
                Event().wait()  # only the server ends it
            if command == "return":
                return
            COMMANDS.get(command, lambda: None)()
            rank_0.send(self.facts)

    def close(self):
        for peer in self.peers:
            peer.close()


def connect(address):
    while True:
        try:
            return Client(address)
        except ConnectionRefusedError:
            Event().wait(0.02)
