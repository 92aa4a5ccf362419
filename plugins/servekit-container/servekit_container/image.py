# SPDX-License-Identifier: Apache-2.0
"""The plan of an image: its models, and the packages that they need."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from servekit_archiver import Manifest

from servekit import __version__

__all__ = ["ImagePlan", "MissingModule", "PackedModel", "default_tag"]

OWN_STAGE = "predict"  #: how a manifest names the stage that is the model's own service


@dataclass(frozen=True, slots=True)
class MissingModule:
    """A module that a model imports and no package of the image brings."""

    model: str
    file: str  #: the file of the model that imports it
    module: str
    package: str  #: the one that is likely to bring it

    def __str__(self) -> str:
        return (
            f"{self.model}: {self.file} imports {self.module}, which no package of the image"
            f" brings; add {self.package} to the model's requirements,"
            f" or give --install {self.package}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedModel:
    """A model of the image, as an archive of the build context."""

    name: str  #: the name it is served under
    manifest: Manifest
    digest: str  #: digest of the archive's content
    requirements: str = ""  #: text of its requirements file; "" for none
    modules: Mapping[str, str] = field(default_factory=dict)  #: foreign ones, and who imports them

    @property
    def archive(self) -> str:
        """Path of the archive in the context."""
        return f"models/{self.name}.mar"

    @property
    def requirements_file(self) -> str:
        """Path of its requirements in the context."""
        return f"models/{self.name}.requirements.txt"

    @property
    def directory(self) -> str:
        """Path of the unpacked archive in the image."""
        return f"/srv/models/{self.name}"

    @property
    def workers(self) -> dict[str, int]:
        """How many processes have each stage, by its name; "" is the model's own service."""
        stages = self.manifest.every_stage
        return {
            "" if name == OWN_STAGE else name: stages[stage.host or name].worker.replicas
            for name, stage in stages.items()
        }

    @property
    def argument(self) -> str:
        """Return what ``servekit start`` is given for it."""
        return (
            self.directory if self.name == self.manifest.name else f"{self.name}={self.directory}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Everything that the files of a build context are written from."""

    models: tuple[PackedModel, ...]  #: none: the image serves what is at /mnt/models
    tag: str  #: ``digits:1.0``
    base: str  #: the image that it begins with
    wheels: tuple[str, ...]  #: files of packages that the context brings and no index needs to have
    lacking: tuple["MissingModule", ...] = ()  #: modules that nothing in the image brings
    has_assets_inside: bool  #: fetched when the image is built, not when it is started

    @property
    def has_wheels(self) -> bool:
        """Whether the context brings packages."""
        return bool(self.wheels)

    @property
    def label(self) -> str:
        """A name for Kubernetes: the name of the tag as a DNS label (RFC 1035)."""
        name = self.tag.rpartition(":")[0].rpartition("/")[2]
        label = re.sub("[^a-z0-9]+", "-", name)
        return (label if label[0].isalpha() else f"model-{label}")[:63].rstrip("-")

    @property
    def with_requirements(self) -> tuple[PackedModel, ...]:
        """The models that have requirements."""
        return tuple(model for model in self.models if model.requirements)

    @property
    def with_assets(self) -> tuple[PackedModel, ...]:
        """The models that need files which their archives do not hold."""
        return tuple(model for model in self.models if model.manifest.assets)

    @property
    def fetches_at_start(self) -> bool:
        """Whether a container fetches assets into its cache before it serves."""
        return bool(self.with_assets) and not self.has_assets_inside

    @property
    def load_timeout_s(self) -> float:
        """How long its models may take to load, side by side; an hour if they are not known."""
        stages = (stage for model in self.models for stage in model.manifest.every_stage.values())
        return max((stage.worker.load_timeout_s for stage in stages), default=3600.0)

    @property
    def workers(self) -> int:
        """How many worker processes a container has."""
        stages = (stage for model in self.models for stage in model.manifest.every_stage.values())
        return sum(stage.worker.replicas for stage in stages if not stage.host)


def default_tag(models: Sequence[PackedModel]) -> str:
    """Return ``name:version`` of the first model as registries want it: in lower case.

    Without models, it is that of servekit.
    """
    if not models:
        return f"servekit:{__version__}"
    first = models[0]
    return f"{re.sub('[^a-z0-9]+', '-', first.name.lower()).strip('-')}:{first.manifest.version}"
