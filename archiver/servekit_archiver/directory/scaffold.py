# SPDX-License-Identifier: Apache-2.0
"""Writes a directory that works, to be changed step by step: a model, or a plugin."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from servekit_archiver.directory.model_toml import MODEL_TOML, manifest_from_toml, parse
from servekit_archiver.errors import ArchiveError, ManifestError, refuse_os_errors

__all__ = ["DEFAULT_TEMPLATE", "TEMPLATES", "Template", "scaffold"]


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of directory."""

    summary: str
    needs: str = ""  #: a package besides servekit, for ``pip install``
    first: str = ""  #: what to do before it can be built or checked
    model: str = ""  #: path of the directory of the model, in that directory


DEFAULT_TEMPLATE: Final = "class"
TEMPLATES: Final = {
    "class": Template("a class with load and predict, which gets batches of JSON values"),
    "typed": Template("inputs and outputs with types, which the server checks and describes"),
    "stream": Template("outputs that come one by one, such as the words of an answer"),
    "pipeline": Template("two stages, each with its own replicas and batches"),
    "torch": Template(
        "a PyTorch program without code", "servekit-torch", "python {directory}/export.py"
    ),
    "openai": Template("a chat for clients of OpenAI", "servekit-openai"),
    "plugin": Template(
        "a plugin that offers a service, with tests", "", "pip install -e {directory}", "example"
    ),
}
PLACEHOLDER: Final = "hello"
MODULE: Final = f"servekit_{PLACEHOLDER}"  #: the package in the template ``plugin``
RENDERED: Final = (".md", ".toml")  #: endings of the files that name the model


def scaffold(
    directory: str | Path, name: str | None = None, template: str = DEFAULT_TEMPLATE
) -> list[Path]:
    """Write the files of a template into *directory*; return their paths.

    :param name: of the model, or of the plugin's service; default: the directory's own.
    :param template: one of ``TEMPLATES``.
    :raises ArchiveError: a file already exists, or the name is not one a model may have.
    """
    directory = Path(directory)
    model = name if name is not None else directory.resolve().name
    source = files("servekit_archiver") / "templates" / template
    texts = dict(_rendered(source, model, is_plugin=bool(TEMPLATES[template].model)))
    try:
        place = f"{TEMPLATES[template].model}/{MODEL_TOML}".lstrip("/")
        manifest_from_toml(parse(texts[place]), name=model)
    except ManifestError as error:
        hint = "" if name is not None else "; give another with --name"
        raise ArchiveError(f"{error.problems[0]}{hint}") from None
    with refuse_os_errors(directory):
        for file in texts:
            if (directory / file).exists():
                raise ArchiveError(f"{directory / file}: already exists")
        for file, text in texts.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text, "utf-8")
    return [directory / file for file in texts]


def _rendered(
    source: Traversable, model: str, *, is_plugin: bool, below: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield each file of a template: its path, and its text with the name of the model."""
    module = f"servekit_{model.replace('-', '_').replace('.', '_')}"
    for each in sorted(source.iterdir(), key=lambda entry: entry.name):
        path = f"{below}{each.name.removesuffix('.in')}"
        if each.is_dir():
            yield from _rendered(each, model, is_plugin=is_plugin, below=f"{path}/")
            continue
        text = each.read_text("utf-8")
        if is_plugin:
            path, text = path.replace(MODULE, module), text.replace(MODULE, module)
        if is_plugin or path.endswith(RENDERED):
            quoted = model.replace("\\", "\\\\").replace('"', '\\"')
            text = text.replace(PLACEHOLDER, model if path.endswith(".md") else quoted)
        yield path, text
