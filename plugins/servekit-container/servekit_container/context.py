# SPDX-License-Identifier: Apache-2.0
"""Puts a build context together: archives, requirements, wheels, and the files that use them."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from servekit_archiver import build_archive, unpack

from servekit.errors import StartupError
from servekit.extension import draft_directory
from servekit.settings import ModelSource
from servekit_container.deployments import compose, write_monitoring
from servekit_container.dockerfile import dockerfile, dockerignore
from servekit_container.image import ImagePlan, MissingModule, PackedModel, default_tag
from servekit_container.imports import imported_modules, lacking
from servekit_container.needs import every_package, plugin_packages, server_packages
from servekit_container.packages import (
    build_wheels,
    configured_links,
    copy_links,
    installed_closure,
    pins,
    wanted_names,
)

__all__ = ["ImageOrder", "write_context"]

Tell = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOrder:
    """The arguments of the command."""

    models: Sequence[ModelSource]  #: none: any model, at /mnt/models
    base: str
    tag: str = ""  #: "" takes name and version of the first model, or ours
    install: Sequence[Requirement] = ()
    links: Sequence[Path] = ()  #: folders of wheels, beside those that pip is configured to use
    has_assets_inside: bool = False
    cache: Path | None = None  #: where archives are unpacked


def write_context(
    order: ImageOrder, directory: Path, *, tell: Tell, force: bool = False
) -> ImagePlan:
    """Write a build context into *directory*: all of it, or nothing.

    :param tell: gets a line before what takes long.
    :param force: write over files of the same name; what else is there stays.
    :raises StartupError: it is not empty, or no image can be made of the models.
    :raises ArchiveError: a model is refused.
    """
    with draft_directory(directory, force=force) as draft:
        return _fill(order, draft, tell)


def _fill(order: ImageOrder, draft: Path, tell: Tell) -> ImagePlan:
    (draft / "models").mkdir()
    models = tuple(_pack(source, draft, order.cache) for source in order.models)
    plugins = server_packages() if models else every_package()
    roots = [Requirement("servekit"), *plugins, *order.install]
    for model in models:
        roots += plugin_packages(model.manifest)
    closure = installed_closure(roots)
    own = set[str]().union(*(wanted_names(each.requirements, _source(each)) for each in models))
    lines = pins(roots, closure, own)
    asked = {canonicalize_name(root.name) for root in roots} | own
    every = installed_closure([*roots, *(Requirement(name) for name in own if _is_name(name))])
    image = ImagePlan(
        models=models,
        tag=order.tag or default_tag(models),
        base=order.base,
        wheels=_bring(every, draft / "wheels", order.links, tell),
        has_assets_inside=order.has_assets_inside,
        lacking=tuple(_missing_modules(models, asked | set(every))),
    )
    for name, text in _texts(image, lines).items():
        (draft / name).write_text(text, encoding="utf-8")
    write_monitoring(draft / "monitoring")
    return image


def _bring(
    closure: Mapping[str, Distribution], directory: Path, links: Sequence[Path], tell: Tell
) -> tuple[str, ...]:
    """Put the packages that are not the index's into *directory*; return their files."""
    built = build_wheels(closure, directory, tell)
    return *built, *copy_links(closure, [*links, *configured_links()], directory)


def _missing_modules(models: Sequence[PackedModel], packages: Set[str]) -> Iterator[MissingModule]:
    for model in models:
        for module, package in lacking(model.modules, packages).items():
            yield MissingModule(model.name, model.modules[module], module, package)


def _is_name(text: str) -> bool:
    return canonicalize_name(text) == text and "/" not in text


def _pack(source: ModelSource, draft: Path, cache: Path | None) -> PackedModel:
    """Bring one model into the context as an archive, verified."""
    if source.is_url:
        raise StartupError(f"models: {source.shown}: only local archives can be put into an image")
    path, archive = Path(source.path), draft / "models" / "new.mar"
    if path.is_dir():
        built = build_archive(path, archive)
        directory, manifest, digest = path, built.manifest, built.digest
    else:
        unpacked = unpack(path, cache)
        directory, manifest, digest = unpacked.directory, unpacked.manifest, unpacked.digest
        shutil.copyfile(path, archive)
    named = manifest.requirements
    text = (directory / named).read_text(encoding="utf-8") if named else ""
    model = PackedModel(
        name=source.name or manifest.name,
        manifest=manifest,
        digest=digest,
        requirements=text,
        modules=imported_modules(manifest, directory),
    )
    if (draft / model.archive).exists():
        raise StartupError(f"models: {model.name} is there twice; name one NAME=PATH")
    archive.rename(draft / model.archive)
    return model


def _source(model: PackedModel) -> str:
    return f"{model.name}: {model.manifest.requirements}"


def _texts(image: ImagePlan, lines: Sequence[str]) -> dict[str, str]:
    own = {model.requirements_file: model.requirements for model in image.with_requirements}
    return own | {
        "requirements.txt": "".join(f"{line}\n" for line in lines),
        "Dockerfile": dockerfile(image),
        ".dockerignore": dockerignore(image),
        "compose.yaml": compose(image),
    }
