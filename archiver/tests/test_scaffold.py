# SPDX-License-Identifier: Apache-2.0
import importlib.util

import pytest
from servekit_archiver import ArchiveError, build_archive, load_directory
from servekit_archiver.directory.scaffold import TEMPLATES, scaffold


def test_what_is_written_builds(tmp_path):
    scaffold(tmp_path / "greeter")

    manifest = build_archive(tmp_path / "greeter", tmp_path / "a.mar").manifest

    assert (manifest.name, manifest.service) == ("greeter", "service:Hello")
    assert sorted(manifest.files) == ["README.md", "model.toml", "service.py"]


def test_the_service_answers_its_own_example_and_refuses_what_is_none(tmp_path):
    pytest.importorskip("servekit")
    from servekit import InputError

    scaffold(tmp_path / "greeter")
    manifest = build_archive(tmp_path / "greeter", tmp_path / "a.mar").manifest
    spec = importlib.util.spec_from_file_location("service", tmp_path / "greeter/service.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hello = module.Hello()
    hello.load(manifest)  # has .options, which is all that this load reads

    (example,) = manifest.examples
    answers = hello.predict([example.input, {"name": 3}, "Ada"])

    assert answers[0] == example.output
    assert [type(answer) for answer in answers[1:]] == [InputError, InputError]


def test_the_name_is_the_one_given(tmp_path):
    scaffold(tmp_path, "greeter")

    assert load_directory(tmp_path).name == "greeter"
    assert "/greeter/predict" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("name", ["two words", "ping", 'a"b', "a\\b"])
def test_a_name_that_no_model_may_have_is_refused(tmp_path, name):
    with pytest.raises(ArchiveError, match=r"name: .*; give another with --name"):
        scaffold(tmp_path / name)

    assert not (tmp_path / name).exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "service.py").write_text("mine")

    with pytest.raises(ArchiveError, match=r"service\.py: already exists"):
        scaffold(tmp_path, "m")

    assert [path.name for path in tmp_path.iterdir()] == ["service.py"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_can_be_built_under_any_name(tmp_path, template):
    directory = tmp_path / "my-own.model"
    scaffold(directory, template=template)
    model = load_directory(directory / TEMPLATES[template].model, name="my-own.model")
    texts = [path.read_text() for path in directory.rglob("*") if path.suffix in (".md", ".toml")]

    assert model.name == "my-own.model"
    assert not any("hello" in text.replace("Hello", "") for text in texts)


def test_a_plugin_has_names_that_python_can_import(tmp_path):
    scaffold(tmp_path / "my-own", template="plugin")
    hooks = tmp_path / "my-own" / "servekit_my_own" / "hooks.py"

    assert '{"my-own": "servekit_my_own.service:Greeter"}' in hooks.read_text()
