# SPDX-License-Identifier: Apache-2.0
"""One replica of two processes: each has half of the columns of a matrix."""

import os
from multiprocessing.connection import Client, Connection, Listener
from threading import Event
from time import monotonic

import numpy as np

from servekit import Array, Context, Service

ROWS, COLUMNS = 4, 6
CONNECT_S = 30.0


class ShardedProduct(Service):
    """Rank 0 sends each batch to the others, and puts the parts of the product together."""

    def load(self, context: Context) -> None:
        """Make our columns of the matrix, and connect the ranks."""
        columns = np.array_split(np.arange(COLUMNS), context.world_size)[context.rank]
        rows = COLUMNS * np.arange(ROWS)[:, np.newaxis]
        self._shard = (rows + columns).astype(np.float32)  # 0, 1, 2, ... row by row
        self._peers: list[Connection] = []
        if context.world_size > 1:
            self._peers = self._meet(context.rank, context.world_size)

    def _meet(self, rank: int, world_size: int) -> list[Connection]:
        """Return the connections to the other ranks in rank 0, and in the others that to rank 0."""
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank > 0:
            peer = connect(address)
            peer.send_bytes(bytes([rank]))
            return [peer]
        with Listener(address, backlog=world_size) as listener:
            peers = [listener.accept() for _ in range(1, world_size)]
        return sorted(peers, key=lambda peer: peer.recv_bytes())

    def predict(self, batch: dict[str, Array]) -> dict[str, Array]:
        """Return the product of each vector with the whole matrix. Runs in rank 0."""
        x = batch["x"]
        for peer in self._peers:
            peer.send_bytes(x.tobytes())
        parts = [x @ self._shard]  # while the others compute theirs
        for peer in self._peers:
            part = np.frombuffer(peer.recv_bytes(), np.float32)
            parts.append(part.reshape(len(x), -1))
        return {"y": np.concatenate(parts, axis=1)}

    def follow(self) -> None:
        """Multiply with our columns what rank 0 sends. Runs in the other ranks."""
        (rank_0,) = self._peers
        while received := receive(rank_0):
            x = np.frombuffer(received, np.float32).reshape(-1, ROWS)
            rank_0.send_bytes((x @ self._shard).tobytes())

    def close(self) -> None:
        """Disconnect, which lets ``follow`` of the others return."""
        for peer in self._peers:
            peer.close()


def connect(address: tuple[str, int]) -> Connection:
    """Connect to rank 0 as soon as it listens."""
    deadline, pause = monotonic() + CONNECT_S, Event()
    while True:
        try:
            return Client(address)
        except ConnectionRefusedError:
            if monotonic() > deadline:
                raise
        pause.wait(0.05)


def receive(peer: Connection) -> bytes:
    """Return the next message; b"" if *peer* has disconnected."""
    try:
        return peer.recv_bytes()
    except EOFError:
        return b""
