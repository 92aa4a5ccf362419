# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.cluster``: what a rollout and two evictions cost clients, as a table."""

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from . import node
from .controllers import TooManyDisruptions
from .kubelet import Pod
from .stage import Rendered, Stage, wait_until

#: how late clients see that an endpoint is gone; less than the drain delay, 5 s, but for DNS,
#: whose clients look every 10 s and must find out for themselves
LAGS_S = {"file": 2.0, "dns": 3.0, "kept": 4.0, "http2": 4.0}
RUN_UP_S = 3.0


def rollout(stage: Stage, rendered: Rendered) -> None:
    """Replace both pods by those of another version."""
    stage.deployment.update(rendered.version("2"))
    stage.wait_rolled_out()


def evictions(stage: Stage, _: Rendered) -> None:
    """Evict both pods, as fast as the budget allows."""

    def is_evicted(pod: Pod) -> bool:
        with suppress(TooManyDisruptions):
            stage.deployment.evict(pod)
        return pod.is_terminating

    for pod in stage.deployment.ready:
        wait_until(lambda pod=pod: is_evicted(pod), f"{pod.name} cannot be evicted")
    stage.wait_rolled_out()


def main() -> None:
    """Measure, and print."""
    if reason := node.why_not():
        sys.exit(f"this machine cannot be a node: {reason}")
    with tempfile.TemporaryDirectory() as directory:
        rendered = Rendered(Path(directory))
        print("| change | clients | requests | lost | slowest |\n|---|---|---|---|---|")
        for number, change in enumerate((rollout, evictions)):
            here = Path(directory) / str(number)
            here.mkdir()
            with Stage(here, rendered) as stage:
                stage.wait_rolled_out()
                loads = [stage.load(kind, lag_s=lag_s) for kind, lag_s in LAGS_S.items()]
                stage.pass_time(RUN_UP_S)
                change(stage, rendered)
                stage.pass_time(RUN_UP_S + max(LAGS_S.values()))
                for load in loads:
                    found = load.stop()
                    count = sum(found["answered"].values()) + found["lost"]
                    name = f"{change.__name__} | {load.kind}"
                    print(f"| {name} | {count} | {found['lost']} | {found['slowest_s']:.1f} s |")
                ended = [f"{pod.ended_after_s:.1f}" for pod in stage.deployment.pods if pod.exits]
                ready = [f"{pod.ready_after_s:.1f}" for pod in stage.deployment.pods]
                used = [pod.container.peak_bytes >> 20 for pod in stage.deployment.ready]
            print(f"pods: ready after {', '.join(ready)} s; ended after {', '.join(ended)} s;"
                  f" at most {max(used)} MiB", file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    main()
