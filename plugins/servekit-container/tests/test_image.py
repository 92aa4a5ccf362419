# SPDX-License-Identifier: Apache-2.0
"""What an image is to hold: which packages in which version, how many workers, which name."""

from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from servekit_archiver import Manifest, Stage, Step, WorkerSettings
from servekit_container.dockerfile import dockerfile
from servekit_container.image import ImagePlan, PackedModel, default_tag
from servekit_container.needs import every_package
from servekit_container.packages import installed_closure, pins, wanted_names, with_extras

from servekit.errors import StartupError


def test_a_version_that_no_index_has_is_pinned_by_what_an_index_calls_it():
    package = SimpleNamespace(version="2.4.0+cpu", name="torch")

    assert pins([Requirement("torch")], {"torch": package}, set()) == ["torch==2.4.0"]


def test_extras_and_packages_that_are_not_installed_are_asked_for_as_written():
    roots = [Requirement("servekit[zstd]"), Requirement("no-such-package>=2")]
    closure = installed_closure(roots)

    assert pins(roots, closure, set())[:2] == ["no-such-package>=2", "servekit[zstd]"]
    assert {"servekit", "msgspec", "greenlet"} <= set(closure)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("numpy>=1\nTorch_X[cpu]==2 ; python_version > '3'\n", {"numpy", "torch-x"}),
        ("https://a/my_own-1.0-py3-none-any.whl\nhttps://a/other-2.tar.gz\n", {"my-own", "other"}),
        ("# all\n\n--extra-index-url https://a/b\nnumpy==1 \\\n  --hash=sha256:00\n", {"numpy"}),
    ],
)
def test_names_in_a_requirements_file_are_for_the_model_to_decide(text, names):
    assert wanted_names(text, "m") == names


@pytest.mark.parametrize("line", ["-r a.txt", "-c a.txt", "-e .", "./a.whl", "--requirement=a"])
def test_a_requirements_file_stands_alone(line):
    with pytest.raises(StartupError, match=f"m: '{line}' refers to another file"):
        wanted_names(f"numpy\n{line}\n", "m")


@pytest.mark.parametrize(
    ("tag", "label"),
    [
        ("hello:1.0", "hello"),
        ("registry.example:5000/team/my_model.x:7", "my-model-x"),
        ("2b:1", "model-2b"),
        (f"{'a' * 62}-b:1", "a" * 62),
    ],
)
def test_kubernetes_gets_a_name_that_it_takes(tag, label):
    assert an_image(tag=tag).label == label


def test_a_core_is_asked_for_each_worker_and_none_for_stages_that_share_one():
    apart = Stage(service="m:A", worker=WorkerSettings(replicas=3))
    colocated = Stage(service="m:B", colocated="a")
    manifest = Manifest(name="m", stages={"a": apart, "b": colocated}, pipeline=[Step(stage="a")])
    model = PackedModel(name="m", manifest=manifest, digest="0")

    assert an_image(models=(model,)).workers == 3


def an_image(**keys):
    given = {"models": (), "tag": "m:1", "base": "python:3.12-slim"} | keys
    return ImagePlan(**given, wheels=(), has_assets_inside=False)


def test_an_image_without_models_serves_what_is_mounted():
    recipe = dockerfile(an_image(tag=default_tag(())))
    entry = recipe[recipe.index("ENTRYPOINT") :]

    assert "SERVEKIT_MODELS=model=/mnt/models" in recipe
    assert "SERVEKIT_CACHE_DIR=/tmp/servekit-cache" in recipe
    assert "/srv/models" not in recipe
    assert entry == 'ENTRYPOINT ["servekit"]\nCMD ["start"]\n'


def test_a_package_has_the_extras_that_are_installed_here(monkeypatch):
    def distribution(name):
        if name not in packages:
            raise PackageNotFoundError(name)
        return packages[name]

    extras = SimpleNamespace(get_all=lambda key: ["grpc", "gpu"])
    needs = ["base", "hpack>=4; extra == 'grpc'", "cuda; extra == 'gpu'"]
    packages = {
        "oip": SimpleNamespace(metadata=extras, requires=needs),
        "base": SimpleNamespace(version="1"),
        "hpack": SimpleNamespace(version="4.1"),
    }
    monkeypatch.setattr("servekit_container.packages.distribution", distribution)

    assert str(with_extras("oip")) == "oip[grpc]"


def test_commands_of_plugins_have_no_part_in_serving():
    names = {package.name for package in every_package()}

    assert "servekit-oip" in names
    assert "servekit-container" not in names
