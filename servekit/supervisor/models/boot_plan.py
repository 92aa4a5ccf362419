# SPDX-License-Identifier: Apache-2.0
"""How the workers of a prepared model are started, and the first message to them."""

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from servekit.ipc.busy_times import busy_poll_s
from servekit.ipc.control import Launch
from servekit.settings import Settings
from servekit.settings.cpu_lists import cpu_share
from servekit.supervisor.os.environment import THREAD_VARIABLES, worker_environment
from servekit.supervisor.os.memory_directory import MEMORY
from servekit.supervisor.os.resources import usable_cores
from servekit.supervisor.os.user import find_user
from servekit.supervisor.preparing.messages import PreparedModel, PreparedStage
from servekit.supervisor.replicas.ranks import RankBoot
from servekit.supervisor.replicas.replica import Boot, Replica
from servekit.supervisor.replicas.worker import worker_command

__all__ = ["boot_of", "launch_of"]

MASTER = "127.0.0.1"  #: where the ranks of a replica meet


def boot_of(
    prepared: PreparedModel,
    stage: PreparedStage,
    settings: Settings,
    replica: Replica,
    replicas: int,
    total_replicas: int,
) -> Boot:
    """Return how the next worker of *replica* is started.

    :param replicas: of its stage.
    :param total_replicas: of all models; they share the cores.
    """
    shares = [
        cpu_share(stage.cpus, replica.place * stage.ranks + rank, replicas * stage.ranks)
        for rank in range(stage.ranks)
    ]
    share = len(shares[0]) or max(1, usable_cores() // max(1, total_replicas) // stage.ranks)
    threads = stage.threads or share
    launch = launch_of(
        prepared,
        stage,
        settings,
        threads,
        replica=replica.place,
        replicas=replicas,
        generation=replica.generation,
    )
    own = stage.environments[replica.place % len(stage.environments)]
    if stage.threads:
        own = dict.fromkeys(THREAD_VARIABLES, str(stage.threads)) | own
    user = find_user(prepared.user)
    label = "#".join(filter(None, (prepared.label, stage.name, str(replica.index))))
    passed = [*settings.pass_env, *prepared.pass_env]
    ranks = []
    for rank, variables in enumerate(_rank_variables(stage.ranks)):
        environment = worker_environment(os.environ, threads, own | variables, user, passed)
        name = f"{label}#rank{rank}" if rank else label
        command = worker_command(prepared.python, name, environment, prepared.directory, user)
        ranks.append(RankBoot(_of_rank(launch, rank, shares), command))
    return Boot(ranks, settings.load_timeout or stage.load_timeout_s)


def _of_rank(launch: Launch, rank: int, shares: Sequence[list[int]]) -> Launch:
    """Return *launch* for one of the ranks, each with its own of the *shares* of the cores."""
    colocated = {} if rank else launch.colocated  # only rank 0 answers requests
    return structs.replace(
        launch, rank=rank, world_size=len(shares), cpus=shares[rank], colocated=colocated
    )


def _rank_variables(count: int) -> Iterator[dict[str, str]]:
    """Yield the variables that tell each of *count* processes its rank; none for a single one."""
    if count == 1:
        yield {}
        return
    with socket.socket() as chosen:  # closed again: rank 0 listens there, if any does
        chosen.bind((MASTER, 0))
        port = chosen.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": MASTER, "MASTER_PORT": str(port)}
    for rank in range(count):
        yield {"RANK": str(rank), "LOCAL_RANK": str(rank), **shared}


def launch_of(
    prepared: PreparedModel,
    stage: PreparedStage,
    settings: Settings,
    threads: int,
    *,
    replica: int = 0,
    replicas: int = 0,
    generation: int = 0,
) -> Launch:
    """Return the first message to a worker of *stage*."""
    return Launch(
        directory=prepared.directory,
        manifest=stage.manifest,
        replica=replica,
        replicas=replicas or stage.replicas,
        generation=generation,
        threads=threads,
        max_batch_size=stage.max_batch_size,
        max_concurrency=stage.max_concurrency,
        max_answer_bytes=settings.max_answer,
        arena_bytes=settings.arena,
        large_body_bytes=settings.large_body,
        assets=prepared.assets,
        memory_bytes=settings.worker_memory,
        files=settings.worker_files,
        log_format=settings.log_format,
        is_dev=settings.dev,
        log_level=settings.log_level,
        stage=stage.name,
        colocated={each.name: each.manifest for each in stage.colocated},
        busy_poll_s=busy_poll_s(settings.busy_poll),
        is_secret=Path(prepared.directory).is_relative_to(MEMORY),
    )
