# SPDX-License-Identifier: Apache-2.0
"""A software bill of materials of an archive: its packages, files and assets, as CycloneDX 1.6."""

import re
import uuid
from collections.abc import Iterator
from typing import Any, Final

from servekit_archiver.archive.reader import Archive
from servekit_archiver.version import __version__

__all__ = ["make_sbom"]

#: serial numbers are made in it
NAMESPACE: Final = uuid.UUID("6f0f6f1e-6d0c-5c55-9f5c-3c4b8f3b2a61")
REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*"
    r"(?:@\s*(?P<url>[^\s;]+)|\(?(?P<wanted>(?:[<>=!~][^;@()]*)?)\)?)\s*(?:;.*)?"
)
PINNED: Final = re.compile(r"===?\s*([^\s,*]+)")
HASH: Final = re.compile(r"--hash[= ](sha256|sha384|sha512):([0-9a-fA-F]+)")
ALGORITHMS: Final = {"sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}


def make_sbom(archive: Archive) -> dict[str, Any]:
    """Return the bill of materials. The same archive gives the same one.

    The packages are those of its lock, or of its requirements; these may leave versions open.

    :raises ArchiveError: the file of the packages does not match the manifest.
    """
    manifest = archive.manifest
    lines = list(dict.fromkeys(_requirements(archive)))
    found = [component for line in lines if (component := _package(line))]
    packages = list({each["bom-ref"]: each for each in found}.values())
    others = [_property(line) for line in lines if not _package(line)]
    model: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": f"{manifest.name}@{manifest.version}",
        "name": manifest.name,
        "version": manifest.version,
        "hashes": [_sha256(archive.digest)],
    }
    if manifest.description:
        model["description"] = manifest.description
    if manifest.license:
        model["licenses"] = [{"license": {"name": manifest.license}}]
    if others:
        model["properties"] = others
    tool = {"type": "application", "name": "servekit-archiver", "version": __version__}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, archive.digest)}",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": model},
        "components": [*packages, *_files(archive), *_assets(archive)],
        "dependencies": [
            {"ref": model["bom-ref"], "dependsOn": sorted(each["bom-ref"] for each in packages)}
        ],
    }


def _requirements(archive: Archive) -> Iterator[str]:
    """Yield the requirements, without comments and the options of a whole file."""
    manifest = archive.manifest
    file = manifest.lock.file if manifest.lock else manifest.requirements
    text = archive.read(file).decode("utf-8", "replace") if file else ""
    for raw in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if line and not line.startswith(("--", "-i ", "-f ")):
            yield " ".join(line.split())


def _package(line: str) -> dict[str, Any] | None:
    """Return the component that *line* requires; ``None`` for a path, a repository or a file."""
    parsed = REQUIREMENT.fullmatch(line.partition(" --")[0].strip())
    if parsed is None:
        return None
    name = re.sub(r"[-_.]+", "-", parsed["name"]).lower()
    pinned = PINNED.fullmatch((parsed["wanted"] or "").strip())
    purl = f"pkg:pypi/{name}" + (f"@{pinned[1]}" if pinned else "")
    component: dict[str, Any] = {
        "type": "library", "bom-ref": purl, "name": name, "purl": purl,
    }  # fmt: skip
    if pinned:
        component["version"] = pinned[1]
    else:
        component["properties"] = [_property(line)]
    hashes = [
        {"alg": ALGORITHMS[kind], "content": value.lower()} for kind, value in HASH.findall(line)
    ]
    if hashes or parsed["url"]:
        source = {
            "type": "distribution",
            "url": parsed["url"] or f"https://pypi.org/simple/{name}/",
        }
        component["externalReferences"] = [source | ({"hashes": hashes} if hashes else {})]
    return component


def _files(archive: Archive) -> Iterator[dict[str, Any]]:
    for name, info in sorted(archive.manifest.files.items()):
        reference = f"file:{name}"
        yield {
            "type": "file", "bom-ref": reference, "name": name, "hashes": [_sha256(info.sha256)],
        }  # fmt: skip


def _assets(archive: Archive) -> Iterator[dict[str, Any]]:
    for name, asset in sorted(archive.manifest.assets.items()):
        component: dict[str, Any] = {"type": "data", "bom-ref": f"asset:{name}", "name": name}
        if asset.sha256:
            component["hashes"] = [_sha256(asset.sha256)]
        if asset.url:
            component["externalReferences"] = [{"type": "distribution", "url": asset.url}]
        yield component


def _property(line: str) -> dict[str, str]:
    return {"name": "servekit:requirement", "value": line}


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}
