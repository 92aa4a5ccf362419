# SPDX-License-Identifier: Apache-2.0
"""Reads archives of torch-workflow-archiver, and the archives of models that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml
from servekit_archiver import ArchiveError, file_in, open_foreign_archive

from servekit_torchserve.archive import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "NODES",
    "WORKFLOW_MANIFEST",
    "NodeSettings",
    "WorkflowSpec",
    "read_workflow",
    "unpack_workflow",
]

WORKFLOW_MANIFEST: Final = "WAR-INF/MANIFEST.json"
NODES: Final = "nodes"  #: folder with the unpacked archives of models
TABLE: Final = "models"  #: of the specification: its settings, and the models


class WorkflowEntry(msgspec.Struct, rename="camel"):
    """The member ``workflow`` of a manifest."""

    workflow_name: str
    spec_file: str
    handler: str = ""  #: a Python file with functions


class WorkflowManifest(msgspec.Struct):
    """The content of ``WAR-INF/MANIFEST.json``."""

    workflow: WorkflowEntry


class NodeSettings(msgspec.Struct, rename="kebab"):
    """Settings of a node, or of all nodes."""

    min_workers: int = 1
    batch_size: int = 1
    max_batch_delay: float = 50  #: milliseconds
    timeout_ms: float = 10_000


class WorkflowSpec(msgspec.Struct):
    """A workflow: its nodes, and which node gets the output of which."""

    name: str
    handler: str
    models: Mapping[str, str]  #: node to the URL of an archive; other nodes are functions
    settings: Mapping[str, NodeSettings]  #: by node
    dag: Mapping[str, list[str]]  #: node to the nodes that follow it

    @property
    def nodes(self) -> list[str]:
        """All nodes, each after those whose outputs it gets.

        :raises ArchiveError: the graph has a cycle.
        """
        left = {node: set(self.before(node)) for node in self._named()}
        found: list[str] = []
        while ready := [node for node, needed in left.items() if needed <= set(found)]:
            found += ready
            left = {node: needed for node, needed in left.items() if node not in ready}
        if left:
            raise ArchiveError(f"dag: {', '.join(left)} form a cycle")
        return found

    def before(self, node: str) -> list[str]:
        """Return the nodes whose outputs *node* gets."""
        return [each for each, following in self.dag.items() if node in following]

    @property
    def leaves(self) -> list[str]:
        """The nodes that nothing follows: their outputs are the response."""
        return [node for node in self._named() if not self.dag.get(node)]

    def _named(self) -> list[str]:
        following = [node for nodes in self.dag.values() for node in nodes]
        return list(dict.fromkeys([*self.dag, *following]))


def unpack_workflow(path: Path, directory: Path, progress: Callable[[int, int], None]) -> bool:
    """Unpack the workflow at *path*, and its models; return whether it is one.

    The archives of its models lie beside it.

    :raises ArchiveError: it is, and something is missing or refused.
    """
    with open_foreign_archive(path) as archive:
        if archive is None or WORKFLOW_MANIFEST not in archive.names:
            return False
        archive.extract(directory, progress=progress)
    spec = read_workflow(directory)
    for node, url in spec.models.items():
        source = file_in(path.parent, Path(url).name, f"{path}: models: {node}: url")
        if not source.is_file():
            raise ArchiveError(f"{path}: models: {node}: there is no {source.name} beside it")
        inside = directory / NODES / node
        inside.mkdir(parents=True)
        if not unpack(source, inside, progress):
            raise ArchiveError(f"{path}: models: {node}: {source.name} is not one of TorchServe")
    return True


def read_workflow(directory: Path) -> WorkflowSpec:
    """Return the workflow that is unpacked in *directory*.

    :raises ArchiveError: its manifest or its specification is not valid.
    """
    try:
        manifest = msgspec.json.decode(
            (directory / WORKFLOW_MANIFEST).read_bytes(), type=WorkflowManifest
        ).workflow
        specification = file_in(directory, Path(manifest.spec_file).name, "specFile")
        table = yaml.safe_load(specification.read_text("utf-8"))
        return _spec(manifest, msgspec.convert(table, dict[str, Any]))
    except (OSError, ValueError, yaml.YAMLError, msgspec.MsgspecError) as error:
        raise ArchiveError(f"workflow: {' '.join(str(error).split())}") from error


def _spec(manifest: WorkflowEntry, table: Mapping[str, Any]) -> WorkflowSpec:
    """Return the workflow in *table*, the specification.

    :raises ArchiveError: a node has a name that no folder may have.
    """
    models = msgspec.convert(table.get(TABLE) or {}, dict[str, Any])
    common = {key: value for key, value in models.items() if not isinstance(value, dict)}
    nodes = {key: value for key, value in models.items() if isinstance(value, dict)}
    for node in nodes:  # each is the name of a folder
        file_in(Path(NODES), node, f"workflow: {TABLE}")
        if "/" in node:
            raise ArchiveError(f"workflow: {TABLE}: {node} contains a slash")
    dag = msgspec.convert(table.get("dag") or {}, dict[str, list[str]])
    return WorkflowSpec(
        name=manifest.workflow_name,
        handler=Path(manifest.handler).stem,
        models={node: str(each["url"]) for node, each in nodes.items() if "url" in each},
        settings={
            node: msgspec.convert({**common, **each}, NodeSettings, strict=False)
            for node, each in nodes.items()
        },
        dag=dag,
    )
