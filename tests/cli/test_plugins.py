# SPDX-License-Identifier: Apache-2.0
"""``servekit plugins`` names what is offered and what is broken."""

from types import SimpleNamespace

import pytest

from servekit.cli import main
from servekit.cli import plugins as command
from servekit.plugins import InstalledPlugin

ONNX = InstalledPlugin(
    "onnx",
    "servekit-onnx 0.1.0",
    SimpleNamespace(register_services=lambda: {"onnx": "servekit_onnx.service:OnnxService"}),
    hooks=("register_services",),
)
BROKEN = InstalledPlugin("torch", "servekit-torch 2.0", None, "ImportError: no libcuda")
RAISING = InstalledPlugin(
    "odd", "odd 1", SimpleNamespace(register_codecs=lambda: 1 / 0), hooks=("register_codecs",)
)


@pytest.fixture
def installed(monkeypatch):
    return lambda *plugins: monkeypatch.setattr(command, "installed_plugins", lambda: list(plugins))


@pytest.mark.parametrize(
    ("plugins", "lines"),
    [
        pytest.param([], ["no plugins are installed; try: pip install"], id="none"),
        pytest.param(
            [ONNX],
            [
                "onnx  (servekit-onnx 0.1.0)",
                "  service   onnx  ->  servekit_onnx.service:OnnxService",
            ],
            id="what it offers",
        ),
        pytest.param([BROKEN], ["  broken    ImportError: no libcuda"], id="fails to import"),
        pytest.param(
            [RAISING], ["  broken    register_codecs: ZeroDivisionError"], id="a hook raises"
        ),
    ],
)
def test_text(installed, capsys, plugins, lines):
    installed(*plugins)
    main(["plugins"])
    text = capsys.readouterr().out

    assert all(line in text for line in lines)


@pytest.mark.parametrize(
    ("plugins", "flags", "status"),
    [
        pytest.param([ONNX, BROKEN], [], 0, id="broken is told, not fatal"),
        pytest.param([ONNX, BROKEN], ["--strict"], 1, id="strict: broken is fatal"),
        pytest.param([ONNX], ["--strict"], 0, id="strict: all well"),
    ],
)
def test_status(installed, plugins, flags, status):
    installed(*plugins)

    assert main(["plugins", *flags]) == status
