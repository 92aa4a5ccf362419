# SPDX-License-Identifier: Apache-2.0
"""Writes models and handlers, and packs them with torch-model-archiver: ``build_archives.py DIR``.

A process of its own: torch takes long to import, and warns of much that is not ours.
"""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import torch

FUNCTION = '''
    """A function, which says what it was given."""

    def shown(value):
        if isinstance(value, dict):
            return {name: shown(each) for name, each in value.items()}
        if isinstance(value, (bytes, bytearray)):
            return [type(value).__name__, value.decode("latin-1")]
        return [type(value).__name__, repr(value)]


    def handle(data, context):
        if data is None:
            return None
        names = ("explain", "url_path", "x-thing")
        return [
            {
                "row": shown(row),
                "headers": {name: context.get_request_header(index, name) for name in names[:2]},
                "properties": sorted(context.system_properties),
                "manifest": context.manifest["model"]["modelName"],
                "model_name": context.model_name,
                "config": context.model_yaml_config,
                "id": bool(context.get_request_id(index)),
            }
            for index, row in enumerate(data)
        ]
'''
CLASS = '''
    """A class with extra files, statuses and errors."""

    import json
    from pathlib import Path

    from ts.utils.util import PredictionException


    class Table:
        def initialize(self, context):
            directory = Path(context.system_properties["model_dir"])
            self.table = json.loads((directory / "table.json").read_text())
            self.prefix = context.model_yaml_config["handler"]["prefix"]

        def handle(self, data, context):
            return [self.answer(row.get("body"), index, context) for index, row in enumerate(data)]

        def answer(self, key, index, context):
            if key == "refuse":
                raise PredictionException("refused", 422)
            if key == "fail":
                raise KeyError(key)
            if key == "bytes":
                return bytes([0, 255])
            if key == "object":
                return {"a": object()}
            if key == "status":
                context.set_response_status(code=201, idx=index)
                context.set_response_header(index, "x-own", "1")
            if key == "nested":
                return {"a": [1, 2.5, None, True, "\\u00e4"], "b": {}, "c": []}
            return self.prefix + self.table.get(str(key), "?")
'''
BASE = '''
    """A subclass of BaseHandler with a model of TorchScript."""

    import torch
    from ts.torch_handler.base_handler import BaseHandler


    class Numbers(BaseHandler):
        def preprocess(self, data):
            return torch.tensor([row.get("body") for row in data], dtype=torch.float32)
'''
EAGER = '''
    """A model whose class is in the archive."""

    import torch


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.layer(x)
'''
CONFIG = "minWorkers: 1\nmaxWorkers: 1\nbatchSize: 4\nmaxBatchDelay: 10\nhandler: {prefix: '> '}\n"


class Pictures(torch.nn.Module):
    """Scores of seven classes, by the mean colours of quarters of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(12, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)) * 3


def archive(top: Path, name: str, handler: str, *options: str) -> None:
    """Pack one model."""
    program = Path(sys.executable).with_name("torch-model-archiver")
    command = [str(program), f"--model-name={name}", "--version=1.0", f"--handler={handler}"]
    subprocess.run([*command, f"--export-path={top}", "--force", *options], check=True, cwd=top)


def main(top: Path) -> None:
    """Write everything into *top*."""
    torch.manual_seed(0)
    sources = {"function": FUNCTION, "table": CLASS, "linear": BASE, "net": EAGER}
    for name, code in sources.items():
        (top / f"{name}.py").write_text(dedent(code))
    (top / "config.yaml").write_text(CONFIG)
    (top / "table.json").write_text(json.dumps({"a": "alpha", "1": "one"}))
    (top / "requirements.txt").write_text("pyyaml\n")
    labels = {str(index): [f"n{index}", f"label {index}"] for index in range(7)}
    (top / "index_to_name.json").write_text(json.dumps(labels))
    net = torch.nn.Linear(4, 3)
    torch.jit.script(net).save(str(top / "script.pt"))
    torch.save({f"layer.{name}": value for name, value in net.state_dict().items()}, top / "net.pt")
    torch.jit.script(Pictures()).save(str(top / "pictures.pt"))
    config = "--config-file=config.yaml"
    archive(top, "function", "function.py", config)
    extra = "--extra-files=table.json"
    needs = ("--requirements-file=requirements.txt", config)
    archive(top, "table", "table.py", extra, *needs)
    archive(top, "numbers", "linear.py", "--serialized-file=script.pt", "--config-file=config.yaml")
    archive(top, "eager", "linear.py", "--serialized-file=net.pt", "--model-file=net.py")
    labels_file = "--extra-files=index_to_name.json"
    archive(top, "pictures", "image_classifier", "--serialized-file=pictures.pt", labels_file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
