# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an archive, and that it is CycloneDX."""

import hashlib
import json

import pytest
from servekit_archiver import build_archive, open_archive
from servekit_archiver.archive.sbom import make_sbom
from servekit_archiver.cli import main
from servekit_archiver.locking.lock_file import LockHeader

REQUIREMENTS = """\
# the packages of the model
--index-url https://packages.example/simple
numpy==2.1.0 \\
    --hash=sha256:{one} \\
    --hash=sha256:{two}   # two files
Scikit_Learn[extra]>=1.5; python_version > "3.10"
torch @ https://packages.example/torch-2.5.0.whl
six == 1.16.*
git+https://example.org/repo.git
-r more.txt
""".format(one="a" * 64, two="b" * 64)
TOML = """
name = "digits"
version = "1.1"
service = "service:Digits"
description = "Digits"
license = "MIT"
requirements = "requirements.txt"

[assets.weights]
url = "https://models.example/w.bin"
sha256 = "{digest}"
""".format(digest="c" * 64)


@pytest.fixture
def path(tree, tmp_path):
    directory = tree(
        tmp_path / "m",
        {"model.toml": TOML, "service.py": "class Digits: ...", "requirements.txt": REQUIREMENTS},
    )
    return build_archive(directory, tmp_path / "m.mar").path


@pytest.fixture
def sbom(path):
    with open_archive(path) as archive:
        return make_sbom(archive)


def test_packages_are_named_with_their_versions_and_hashes(sbom):
    found = {each["name"]: each for each in sbom["components"] if each["type"] == "library"}

    assert {name: each["purl"] for name, each in found.items()} == {
        "numpy": "pkg:pypi/numpy@2.1.0",
        "scikit-learn": "pkg:pypi/scikit-learn",
        "torch": "pkg:pypi/torch",
        "six": "pkg:pypi/six",
    }
    (source,) = found["numpy"]["externalReferences"]
    assert [each["content"][0] for each in source["hashes"]] == ["a", "b"]
    assert found["torch"]["externalReferences"][0]["url"].endswith("torch-2.5.0.whl")


def test_what_names_no_version_keeps_its_requirement(sbom):
    (learn,) = [each for each in sbom["components"] if each["name"] == "scikit-learn"]
    wanted = 'Scikit_Learn[extra]>=1.5; python_version > "3.10"'

    assert learn["properties"] == [{"name": "servekit:requirement", "value": wanted}]


def test_the_model_has_its_digest_and_the_lines_that_name_no_package(sbom, path):
    model = sbom["metadata"]["component"]
    with open_archive(path) as archive:
        assert model["hashes"] == [{"alg": "SHA-256", "content": archive.digest}]

    assert (model["name"], model["version"]) == ("digits", "1.1")
    assert [each["value"] for each in model["properties"]] == [
        "git+https://example.org/repo.git", "-r more.txt",
    ]  # fmt: skip
    assert len(sbom["dependencies"][0]["dependsOn"]) == 4


def test_files_and_assets_are_listed(sbom):
    names = {each["name"]: each["type"] for each in sbom["components"]}

    assert names["service.py"] == "file"
    assert names["weights"] == "data"


def test_the_same_archive_gives_the_same_bill(path, sbom, capsys):
    assert main(["sbom", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == sbom


def test_the_packages_are_those_of_the_lock_if_there_is_one(tree, tmp_path):
    wanted = "numpy>=2\n"
    header = LockHeader("3.12", hashlib.sha256(wanted.encode()).hexdigest())
    lock = f"{header}numpy==2.1.0 \\\n    --hash=sha256:{'a' * 64}\n    # via requirements.txt\n"
    toml = 'name = "m"\nservice = "sklearn"\nrequirements = "requirements.txt"\n'
    files = {"model.toml": toml, "requirements.txt": wanted, "requirements.lock": lock}
    built = build_archive(tree(tmp_path / "m", files), tmp_path / "m.mar")
    with open_archive(built.path) as archive:
        components = make_sbom(archive)["components"]

    assert [each["purl"] for each in components if "purl" in each] == ["pkg:pypi/numpy@2.1.0"]


def test_a_model_without_requirements_has_no_packages(archive):
    with open_archive(archive) as opened:
        sbom = make_sbom(opened)

    assert {each["type"] for each in sbom["components"]} == {"file"}


def test_it_is_valid(sbom):
    validators = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    problem = validators.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(
        json.dumps(sbom)
    )

    assert problem is None, problem
