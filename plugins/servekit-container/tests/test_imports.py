# SPDX-License-Identifier: Apache-2.0
"""What a model imports and its image would not have is said before the image is built."""

import pytest
from servekit_archiver import Manifest
from servekit_container.imports import imported_modules, lacking

SERVICE = """
import json, numpy as np
from typing import TYPE_CHECKING
from servekit import Service
from helpers import reading
import {extra}

if TYPE_CHECKING:
    import only_for_types
else:
    import not_for_types

try:
    import optional
except ImportError:
    import fallback

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

try:
    import wanted
except ImportError as error:
    raise RuntimeError("install wanted") from error

class S(Service):
    def predict(self, batch):
        import late.sub
        from importlib import import_module
        return import_module("named"), __import__("named2"), import_module(batch)
"""
FILES = {
    "helpers/__init__.py": "from . import shared",
    "helpers/shared.py": "import of_package",
    "helpers/reading.py": "from .deep import x\nfrom ..no import y\nimport of_helper.a.b as c",
    "helpers/deep.py": "from third_party import service, thing",
    "helpers/unused.py": "import unused",
    "train.py": "import of_training",
    "broken.py": "import of_broken\n(",
}
FOUND = {
    "fallback": "service.py", "late": "service.py", "named": "service.py", "named2": "service.py",
    "not_for_types": "service.py", "numpy": "service.py", "of_helper": "helpers/reading.py",
    "of_package": "helpers/shared.py", "servekit": "service.py", "third_party": "helpers/deep.py",
    "wanted": "service.py",
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """Return ``model(**stages)``: a manifest whose code lies in ``tmp_path``."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def manifest(extra="broken", **table):
        (tmp_path / "service.py").write_text(SERVICE.format(extra=extra))
        table = {"service": "service:S"} | table
        files = {"service.py": {"size": 0, "sha256": "0" * 64}}
        fixed = {"format": 1, "created_by": "a test", "name": "m", "files": files}
        return Manifest.from_mapping(fixed | table)

    return manifest


def test_imports_are_followed_through_the_files_of_the_model(model, tmp_path):
    assert imported_modules(model(), tmp_path) == FOUND


def test_the_services_of_all_stages_count_and_those_of_plugins_have_no_code(model, tmp_path):
    (tmp_path / "other.py").write_text("import of_stage")
    manifest = model(
        service="onnx",
        stages={"other": {"service": "other:S"}},
        pipeline=["predict", "other"],
        files={"other.py": {"size": 0, "sha256": "0" * 64}},
    )

    assert imported_modules(manifest, tmp_path) == {"of_stage": "other.py"}


INSTALLED = {"PIL": ["Pillow"], "yaml": ["PyYAML"], "google": ["google-auth", "protobuf"]}


@pytest.mark.parametrize(
    ("module", "packages", "package"),
    [
        pytest.param("torch", {"numpy"}, "torch", id="nothing brings it"),
        pytest.param("torch", {"torch"}, None, id="of the same name"),
        pytest.param("my_tools", {"my-tools"}, None, id="but for the spelling"),
        pytest.param("PIL", {"pillow"}, None, id="installed here from a package that is there"),
        pytest.param("PIL", {"numpy"}, "pillow", id="installed here from another one"),
        pytest.param("google", {"protobuf"}, None, id="one of several packages"),
        pytest.param("sklearn", {"scikit-learn"}, None, id="not installed, known by another name"),
        pytest.param("sklearn", set(), "scikit-learn", id="not installed, advised by that name"),
        pytest.param("cv2", {"opencv-contrib-python"}, None, id="one of the variants"),
    ],
)
def test_a_module_is_brought_by_a_package(module, packages, package):
    found = lacking({module: "service.py"}, packages, INSTALLED)

    assert found == ({module: package} if package else {})
