# SPDX-License-Identifier: Apache-2.0
"""How ``make docs`` turns the pages into a site: the same files that are read in the repository.

The source directory is the root of the repository, so links between pages, plugins and examples
work as they do there. The navigation is the map in ``index.md``: each heading is a caption, each
link below it an entry. A page that no entry leads to is an error, and so is a broken link.
"""

import ast
import inspect
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

import servekit.client
import servekit.extension
import servekit.testing

ROOT = Path(__file__).parent.parent
REPOSITORY = re.compile(r"https://github\.com/servekit/servekit/blob/main/")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\.md\)")

project = "servekit"
version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "docs/index"
INDEXES = {root_doc, "docs/design/README"}
include_patterns = [
    *(
        "docs/*.md",
        "docs/**/*.md",
        "archiver/README.md",
        "plugins/*/README.md",
        "examples/README.md",
        "examples/*/README.md",
    ),
    *("tests/*/README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
]
exclude_patterns = [".git", ".venv", ".bench", "build", "**/.*_cache", "**/__pycache__"]

myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # the name of a file that a page shows is a heading of the third level
    "misc.highlighting_failure",  # Pygments does not know CSV
]
highlight_language = "none"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
default_role = "literal"

html_theme = "furo"
html_title = f"servekit {version}"
html_copy_source = False


def prepare(_: Sphinx, docname: str, source: list[str]) -> None:
    """Make links to the repository local, and the lists of links of an index the navigation."""
    source[0] = REPOSITORY.sub("/", source[0])
    if docname in INDEXES:
        sections = re.split(r"^## ", source[0], flags=re.MULTILINE)
        source[0] += "".join(map(toctree, sections))


def toctree(section: str) -> str:
    """Return a hidden table of contents of the pages that the list in *section* links to."""
    heading = section.partition("\n")[0].removeprefix("# ")
    items = re.findall(r"^- .*", section, re.MULTILINE)
    pages = "\n".join(page for item in items for page in LINK.findall(item))
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```" if pages else ""


def complete(module: ModuleType) -> None:
    """Import what *module* imports for type checkers only: autodoc resolves annotations."""
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.If) or node.orelse:
            continue
        if ast.unparse(node.test) == "TYPE_CHECKING":
            code = compile(ast.Module(node.body, []), module.__name__, "exec")
            exec(code, vars(module))  # noqa: S102 - import statements of our own


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", prepare)
    for name in servekit.extension.__all__:  # imported when first used, which autodoc does not see
        setattr(servekit.extension, name, getattr(servekit.extension, name))
    for module in [each for name, each in sys.modules.items() if name.startswith("servekit")]:
        complete(module)
