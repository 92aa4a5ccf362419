# SPDX-License-Identifier: Apache-2.0
"""The page on models of pictures and texts: its service runs, and its tables are complete."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from servekit.testing import ServiceClient
from servekit.vision import ImageOptions, OutputOptions

PAGE = (Path(__file__).parents[2] / "docs/vision.md").read_text(encoding="utf-8")


def test_the_service_of_the_page_tells_light_from_dark(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace = {}
    exec(code, namespace)
    with ServiceClient(namespace["Brightness"], tmp_path) as client:
        pixels = [np.full((9, 9), value, np.uint8) for value in (0, 250)]
        found = client.service.predict([Image.fromarray(each) for each in pixels])

    assert [each[0].label for each in found] == ["dark", "light"]


@pytest.mark.parametrize(("table", "kind"), [("image", ImageOptions), ("output", OutputOptions)])
def test_every_option_is_explained(table, kind):
    section = PAGE.partition(f"`[options.{table}]`\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    keys = {key for cell in named for key in re.findall(r"`(\w+)`", cell)}

    assert keys == {field.name for field in msgspec.structs.fields(kind)}


def test_the_recipes_are_valid():
    import tomllib

    recipes = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

    assert len(recipes) == 3
    for each in recipes:
        msgspec.convert(tomllib.loads(each)["options"]["image"], ImageOptions)
