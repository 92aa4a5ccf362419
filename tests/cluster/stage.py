# SPDX-License-Identifier: Apache-2.0
"""A Deployment of a model on this machine, and clients of its Service."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from servekit_archiver import build_archive

from tests import waiting

from .controllers import Deployment, Endpoints
from .image import REPOSITORY, Image, extracted, image_of
from .manifests import PodTemplate, disruptions, documents, of_kind, pod_template, rollout
from .node import Network

MODEL = Path(__file__).parent / "models" / "digits"
WAIT_S = 120.0
RENDER_S = 600.0  #: with the wheels of all that goes into the image
TOML = """
name = "digits"
version = "{version}"
service = "service:Digits"

[worker]
load_timeout_s = 60

[options]
{options}
"""


wait_until = partial(waiting.wait_until, within_s=WAIT_S)


class Rendered:
    """The manifests of a model, as a user gets them, and the images of its versions."""

    def __init__(self, directory: Path, **options: float) -> None:
        """Render version 1 of the model into *directory*."""
        self._directory, self.output = directory, directory / "rendered"
        archive = self._archive("1", options)
        command = [sys.executable, "-m", "servekit", "kube", "render", str(archive)]
        command += ["-o", str(self.output), "--image", "digits:1"]
        done = subprocess.run(
            command, env=os.environ | {"PIP_NO_BUILD_ISOLATION": "0"},  # 0: without isolation
            capture_output=True, text=True, timeout=RENDER_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.resources = documents(*sorted((self.output / "base").glob("*.yaml")))
        self.deployment = of_kind(self.resources, "Deployment")
        self.template = pod_template(self.deployment)
        image = image_of(self.output / "image", directory / "models")
        self.images: dict[str, Image] = {self.template.image: image}

    def version(self, version: str, **options: float) -> PodTemplate:
        """Return the template of another version, whose image has its own archive."""
        tag = f"digits:{version}"
        model = extracted(self._archive(version, options), self._directory / "models")
        first = self.images[self.template.image]
        binds = first.binds | {"/srv/models/digits": model}
        self.images[tag] = replace(first, binds=binds)
        return replace(self.template, image=tag)

    def _archive(self, version: str, options: Mapping[str, float]) -> Path:
        model = self._directory / f"model-{version}"
        model.mkdir(parents=True)
        (model / "service.py").write_bytes((MODEL / "service.py").read_bytes())
        lines = "\n".join(f"{name} = {value}" for name, value in options.items())
        (model / "model.toml").write_text(TOML.format(version=version, options=lines))
        archive = self._directory / f"digits-{version}.mar"
        build_archive(model, archive)
        return archive


class Stage:
    """A Deployment, its Service and its clients, until the end of a ``with``."""

    def __init__(
        self,
        directory: Path,
        rendered: Rendered,
        *,
        replicas: int = 2,
        template: PodTemplate | None = None,
    ) -> None:
        """Start the pods, of version 1 or of *template*."""
        self._directory = directory / "node"
        self._directory.mkdir()
        self._network = Network()
        self._clients: list[Load] = []
        budget = of_kind(rendered.resources, "PodDisruptionBudget")
        self.deployment = Deployment(
            "digits",
            template or rendered.template,
            rollout(rendered.deployment, replicas),
            images=rendered.images,
            network=self._network,
            directory=self._directory,
            disruptions=disruptions(budget, replicas),
            links=service_links("digits", "servekit", "servekit-digits"),
        )

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.kill()
        self.deployment.close()
        self._network.close()

    def wait_rolled_out(self) -> None:
        """Wait until the newest template is everywhere."""
        wait_until(lambda: self.deployment.is_rolled_out, "the rollout is not done")

    def pass_time(self, seconds: float) -> None:
        """Let the clients ask for a while."""
        sleep(seconds)

    def load(self, kind: str, *, lag_s: float, rate: float = 20.0) -> "Load":
        """Start clients that see changes of the endpoints *lag_s* late."""
        number = len(self._clients)
        path = self._directory / f"view-{number}"
        is_by_name = kind == "dns"
        endpoints: Endpoints = self.deployment.endpoints
        endpoints.show(path, host="digits" if is_by_name else "", lag_s=lag_s)
        wait_until(lambda: len(path.read_text()) > 40, "the endpoints do not reach the client")
        where = f"http://digits:{self.deployment.endpoints.port}" if is_by_name else str(path)
        load = Load(kind, where, rate, hosts=path if is_by_name else None)
        self._clients.append(load)
        return load


class Load:
    """A process with clients."""

    def __init__(self, kind: str, where: str, rate: float, *, hosts: Path | None) -> None:
        """Start it.

        :param hosts: what it is to see as ``/etc/hosts``.
        """
        self.kind = kind
        command = [sys.executable, "-m", "tests.cluster.load", kind, where, "--rate", str(rate)]
        if hosts is not None:
            inside = f'mount --bind {hosts} /etc/hosts; exec "$@"'
            command = ["unshare", "--mount", "sh", "-ec", inside, "sh", *command]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._told: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._told += iter(self._process.stdout.readline, "")

    def wait_answered(self, version: str) -> None:
        """Wait until it has been answered by *version*."""
        wait_until(
            lambda: f"answered by {version}\n" in self._told,
            f"clients of kind {self.kind} were not answered by {version}",
        )

    def stop(self) -> dict[str, Any]:
        """Return what became of the requests."""
        self._end()
        assert self._process.returncode == 0, f"the clients ended with {self._process.returncode}"
        return json.loads(self._told[-1])  # type: ignore[no-any-return]

    def kill(self) -> None:
        """End it, if it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, 9)
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        self._process.stdout.close()


def service_links(*names: str) -> Mapping[str, str]:
    """Return the variables that pods get for Services of these names."""
    found = {}
    for service in names:
        prefix = service.upper().replace("-", "_")
        found |= {
            f"{prefix}_SERVICE_HOST": "10.96.0.7",
            f"{prefix}_SERVICE_PORT": "80",
            f"{prefix}_SERVICE_PORT_HTTP": "80",
            f"{prefix}_PORT": "tcp://10.96.0.7:80",
            f"{prefix}_PORT_80_TCP": "tcp://10.96.0.7:80",
            f"{prefix}_PORT_80_TCP_PROTO": "tcp",
            f"{prefix}_PORT_80_TCP_PORT": "80",
            f"{prefix}_PORT_80_TCP_ADDR": "10.96.0.7",
        }
    return found
