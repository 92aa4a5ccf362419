# SPDX-License-Identifier: Apache-2.0
"""A deployment, for programs: ``deploy`` starts one, ``connect`` finds one."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from servekit.errors import StartupError
from servekit.settings import ModelSource, parse_models
from servekit_ray.connection import create_controller, find_controller, join, missing_resources
from servekit_ray.models import shipped_model
from servekit_ray.order import order_of
from servekit_ray.progress import Progress, in_words, show_steps, silent
from servekit_ray.shipping import put_chunks
from servekit_ray.state import DeploymentStatus, DesiredState, ShippedModel

__all__ = ["RayDeployment", "connect", "deploy"]

POLL_S: Final = 0.2
ANSWER_S: Final = 60.0  #: a controller that starts again on another head node answers within this
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class RayDeployment:
    """Servers of the same models on the nodes of a Ray cluster. Any thread may use it."""

    def __init__(self, name: str, controller: Any) -> None:
        """Use the *controller* of the deployment *name*; ``deploy`` and ``connect`` call this."""
        self.name = name
        self._controller = controller

    def urls(self, timeout_s: float = ANSWER_S) -> list[str]:
        """Return the URLs of the servers that get requests now.

        :raises StartupError: nothing is deployed, or no answer comes within *timeout_s*.
        """
        return [str(url) for url in self._ask("urls", timeout_s=timeout_s)]

    def status(self) -> DeploymentStatus:
        """Return what is wanted, and how each server is.

        :raises StartupError: nothing is deployed, or no answer comes within a minute.
        """
        found: DeploymentStatus = self._ask("status", timeout_s=ANSWER_S)
        return found

    def wait(self, timeout_s: float = 300.0, progress: Progress = silent) -> DeploymentStatus:
        """Wait until as many servers as wanted serve, and none is leaving.

        :raises StartupError: that takes longer than *timeout_s*, or a server cannot be started.
        """
        until, shown = time.monotonic() + timeout_s, ""
        while True:
            status = self.status()
            if len(status.ready) == len(status.servers) == status.target:
                return status
            if status.problem:
                raise StartupError(status.problem)
            if (text := in_words(status)) != shown:
                shown = text
                progress(text)
            if time.monotonic() > until:
                raise StartupError(f"after {timeout_s:g} s: {text}{self._lacking(status)}")
            time.sleep(POLL_S)

    def scale(self, minimum: int, maximum: int | None = None) -> None:
        """Work towards *minimum* servers; with *maximum*, as many as the load needs.

        It returns at once: ``wait`` waits until they serve.

        :raises StartupError: a swap is running.
        """
        maximum = minimum if maximum is None else maximum
        self._ask("scale", minimum, maximum, timeout_s=ANSWER_S)

    def swap(
        self, model: str, archive: str, *, watch_s: float = 10.0, progress: Progress = silent
    ) -> None:
        """Replace a model on one server after another, each as ``servekit swap`` does.

        :param archive: the path of an archive, or a URL.
        :param watch_s: how long each server watches the new version.
        :raises StartupError: a server refused the new version; all serve the old one.
        """
        import ray

        [source] = parse_models([archive])
        result = self._controller.swap.remote(model, send(self, source), watch_s)
        shown = 0
        while not ray.wait([result], timeout=POLL_S)[0]:
            operation = self.status().operation
            shown = show_steps(operation.steps if operation else [], shown, progress)
        operation = self._get(result)
        show_steps(operation.steps, shown, progress)
        if operation.state == "failed":
            raise StartupError(operation.error or f"{model}: the swap failed")
        if not operation.steps:
            progress("all servers have this archive already")

    def down(self) -> None:
        """Drain and end all servers, and the controller. The name is free then."""
        import ray

        self._ask("down")
        ray.kill(self._controller)

    def _lacking(self, status: DeploymentStatus) -> str:
        if not any(server.state == "waiting" for server in status.servers):
            return ""
        order = status.order
        return f"; {missing_resources(order.cpus, order.gpus, status.target)}"

    def _ask(self, method: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        """Call a method of the controller; while that restarts, wait for it.

        :param timeout_s: longest wait for the answer; ``None``: the work has no limit.
        :raises StartupError: it refuses, does not answer, or has ended.
        """
        call = getattr(self._controller, method).options(max_task_retries=-1)
        return self._get(call.remote(*arguments), timeout_s)

    def _get(self, result: Any, timeout_s: float | None = None) -> Any:
        import ray

        try:
            return ray.get(result, timeout=timeout_s)
        except ray.exceptions.GetTimeoutError as error:
            raise StartupError(
                f"deployment {self.name}: its controller does not answer within {timeout_s:g} s; "
                "is the head node of the cluster up?"
            ) from error
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, StartupError):
                raise error.cause from None
            raise
        except ray.exceptions.RayActorError as error:
            raise StartupError(
                f"deployment {self.name}: its controller has ended: {error}"
            ) from error


def connect(name: str = "servekit", address: str = "auto") -> RayDeployment:
    """Return the deployment *name* of the Ray cluster at *address*.

    :raises StartupError: there is no such cluster, or no such deployment.
    """
    join(address)
    return RayDeployment(name, find_controller(name))


def deploy(
    models: Sequence[str],
    *,
    nodes: int = 1,
    replicas: int = 0,
    name: str = "servekit",
    address: str = "auto",
    cpus: float | None = None,
    gpus: float = 0.0,
    autoscale: tuple[int, int] | None = None,
    settings: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    port: int = 0,
    timeout_s: float = 300.0,
    progress: Progress = silent,
) -> RayDeployment:
    """Start a server with *models* on each of *nodes* Ray nodes, and wait until all serve.

    :param models: paths of archives and URLs, each of which can follow ``NAME=``.
    :param replicas: workers of each model on each server; 0: as its manifest says.
    :param cpus: that Ray sets aside for a server; default: one for each worker.
    :param gpus: that a server gets; its workers share them.
    :param autoscale: the smallest and largest number of servers; *nodes* is the first one.
    :param settings: ``NAME.KEY=VALUE``, as for ``servekit start --set``.
    :param env: variables of the servers, ``SERVEKIT_MAX_BODY`` among them.
    :param port: of every server; 0: a free one on each.
    :raises StartupError: nothing is deployed, and why.
    """
    check_name(name)
    order = order_of(
        models, replicas=replicas, cpus=cpus, gpus=gpus, settings=settings, env=env or {}, port=port
    )
    minimum, maximum = autoscale or (nodes, nodes)
    desired = DesiredState(order, minimum, maximum, min(max(nodes, minimum), maximum))
    join(address)
    deployment = RayDeployment(name, create_controller(name))
    with given_up_on_failure(deployment):
        start(deployment, models, desired)
        deployment.wait(timeout_s, progress)
    return deployment


@contextmanager
def given_up_on_failure(deployment: RayDeployment) -> Iterator[None]:
    """End *deployment* if what happens meanwhile fails, or at Ctrl-C: no half of it stays."""
    try:
        yield
    except BaseException as error:
        give_up(deployment, error)
        raise


def give_up(deployment: RayDeployment, error: BaseException) -> None:
    """End a deployment that failed with *error*.

    :raises StartupError: *error*, and that the deployment cannot be ended.
    """
    try:
        deployment.down()
    except Exception as problem:  # noqa: BLE001 - it must not hide the first one
        name = f"deployment {deployment.name}"
        rest = f"{name}: cannot be ended: {problem}; servekit ray down tries again"
        if isinstance(error, StartupError):
            raise StartupError(f"{error}\n{rest}") from error
        error.add_note(rest)


def check_name(name: str) -> None:
    """Check that *name* can be that of a deployment.

    :raises StartupError: it cannot.
    """
    if not NAME.fullmatch(name):
        raise StartupError(f"name: {name!r} is not letters, digits, '.', '_' and '-'")


def start(deployment: RayDeployment, models: Sequence[str], desired: DesiredState) -> None:
    """Give the controller the archives, and then its goal."""
    for source in parse_models(models):
        send(deployment, source)
    deployment._ask("deploy", desired)  # noqa: SLF001 - of this module


def send(deployment: RayDeployment, source: ModelSource) -> ShippedModel:
    """Give the archive of a model to the controller, through the object store."""
    model = shipped_model(source)
    if model.digest:
        deployment._ask("add_archive", model, put_chunks(Path(source.path)))  # noqa: SLF001
    return model
