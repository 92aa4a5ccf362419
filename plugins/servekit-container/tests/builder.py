# SPDX-License-Identifier: Apache-2.0
"""Does what a Dockerfile says, without a daemon: each stage is a directory in place of ``/``.

What is written to ``/opt``, ``/srv``, ``/tmp`` and ``/var`` goes there; the base is this machine.
"""

import json
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

OWN_PATHS = re.compile(r"(?<![\w.}])/(?=(?:opt|srv|tmp|var)/|srv\b|tmp\b)")
STEP = re.compile(r"(?P<word>[A-Z]+) +(?P<rest>(?:.*\\\n)*.*)\n")


class Build:
    """One build; afterwards ``root``, ``environment`` and ``command`` are those of the image."""

    def __init__(self, context: Path, place: Path, instead: dict[str, str] | None = None) -> None:
        """Run every step.

        :param instead: beginnings of ``RUN`` steps, and what to run in their place, in ``root``.
        """
        self._context, self._place, self._instead = context, place, instead or {}
        self._stages: dict[str, Path] = {}
        self.root = place
        self.environment: dict[str, str] = {}
        self.words: dict[str, str] = {}  #: of all other steps, by their name
        self._ignored = (context / ".dockerignore").read_text().splitlines()
        text = re.sub(r"^#.*\n", "", (context / "Dockerfile").read_text(), flags=re.MULTILINE)
        for step in STEP.finditer(text):
            rest = re.sub(r"\\\n\s*", "", step["rest"])
            getattr(self, f"_{step['word'].lower()}", self._other)(rest, step["word"])

    def inside(self, text: str) -> str:
        """Return *text* with the paths of the image below its root."""
        return OWN_PATHS.sub(f"{self.root}/", text)

    def _from(self, rest: str, _: str) -> None:
        base, _, name = rest.partition(" AS ")
        self.root = self._place / f"stage-{len(self._stages)}"
        if base in self._stages:
            shutil.copytree(self._stages[base], self.root, symlinks=True)
            for script in (self.root / "opt/servekit/bin").iterdir():  # they name their interpreter
                if script.is_file() and not script.is_symlink():
                    moved = script.read_text().replace(str(self._stages[base]), str(self.root))
                    script.write_text(moved)
        for folder in ("tmp", "srv"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self._stages[name or "the image"] = self.root
        self.environment = {}

    def _copy(self, rest: str, _: str) -> None:
        words = rest.split()
        options = [word for word in words if word.startswith("--")]
        *sources, target = (word for word in words if not word.startswith("--"))
        stage = next((o.removeprefix("--from=") for o in options if o.startswith("--from=")), "")
        for source in sources:
            origin = self._stages[stage] if stage else self._context
            self._copy_one(origin / source.strip("/"), target, is_ours=not stage)

    def _copy_one(self, path: Path, target: str, *, is_ours: bool) -> None:
        if is_ours:
            self._require_kept(path)
        place = self.root / target.strip("/")
        if path.is_dir():
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True)
            return
        place = place / path.name if target.endswith("/") else place
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)

    def _require_kept(self, path: Path) -> None:
        """Fail if ``.dockerignore`` keeps *path* out."""
        name, is_kept = path.relative_to(self._context).as_posix(), True
        for line in self._ignored:
            if fnmatch(name, line.removeprefix("!")):
                is_kept = line.startswith("!")
        assert is_kept, f".dockerignore keeps {name} out"

    def _run(self, rest: str, _: str) -> None:
        stand_in = next((self._instead[b] for b in self._instead if rest.startswith(b)), None)
        command = stand_in or self.inside(rest)
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.root, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def _env(self, rest: str, _: str) -> None:
        self.environment |= dict(pair.split("=", 1) for pair in rest.split())

    def _other(self, rest: str, word: str) -> None:
        self.words[word] = rest

    @property
    def command(self) -> list[str]:
        """What a container of the image runs."""
        return json.loads(self.words["ENTRYPOINT"]) + json.loads(self.words["CMD"])

    @property
    def probe(self) -> list[str]:
        """What tells whether it is healthy."""
        return json.loads(self.words["HEALTHCHECK"].partition("CMD ")[2])
