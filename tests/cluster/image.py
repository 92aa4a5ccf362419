# SPDX-License-Identifier: Apache-2.0
"""What a container of an image runs, and what it sees as its files."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from servekit_archiver import open_archive

STEP = re.compile(r"^(?P<word>[A-Z]+) +(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE)
REPOSITORY = Path(__file__).parents[2]
#: of the machine: its programs and libraries
BASE = ("/usr", "/etc")
LINKS = (Path("/bin"), Path("/lib"), Path("/lib64"), Path("/sbin"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image; its files are directories of this machine, all read-only."""

    binds: dict[str, Path]  #: path in the container: directory here
    links: dict[str, str]  #: symbolic links in its root
    env: dict[str, str]
    entrypoint: tuple[str, ...]
    args: tuple[str, ...]
    directory: str  #: where it starts
    uid: int  #: unless the pod says another


def extracted(archive: Path, directory: Path) -> Path:
    """Return where the files of *archive* are, as the recipe of an image extracts them."""
    with open_archive(archive) as opened:
        opened.extract(directory / archive.stem, with_manifest=True)
    return directory / archive.stem


def image_of(context: Path, directory: Path) -> Image:
    """Return the image that ``servekit dockerfile`` describes in *context*, without building it.

    The packages are those of this environment, and the models are extracted into *directory*.
    """
    steps = list(STEP.finditer((context / "Dockerfile").read_text().rpartition("\nFROM ")[2]))
    words = {step["word"]: re.sub(r"\\\n\s*", " ", step["rest"]) for step in steps}
    env = dict(pair.split("=", 1) for pair in words["ENV"].split())
    env["PATH"] = env["PATH"].replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    models = {
        f"/srv/models/{archive.stem}": extracted(archive, directory)
        for archive in sorted((context / "models").glob("*.mar"))
    }
    return Image(
        binds={
            **{path: Path(path) for path in (*BASE, sys.base_prefix, str(REPOSITORY))},
            "/opt/servekit": Path(sys.prefix),
            **models,
        },
        links={
            name: str(Path("/", name).readlink()) for name in LINKS if Path("/", name).is_symlink()
        },
        env=env,
        entrypoint=tuple(json.loads(words["ENTRYPOINT"])),
        args=tuple(json.loads(words["CMD"])),
        directory=words["WORKDIR"],
        uid=int(words["USER"].partition(":")[0]),
    )
