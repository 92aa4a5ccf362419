# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the manifest, made from the same declarations that check it.

``python -m servekit_archiver.manifest.schema`` prints it; ``manifest.schema.json`` is the copy that
is published, and a test holds it to this.
"""

import json
from typing import Any

from servekit_archiver.manifest import Manifest
from servekit_archiver.manifest.record import TableOf

__all__ = ["manifest_schema"]


def manifest_schema() -> dict[str, Any]:
    """Return the schema of ``MAR-INF/MANIFEST.json``.

    What it cannot say: no key twice, names that do not clash, and files that are there.
    """
    schema = TableOf(Manifest).schema()
    required = ["format", "created_by", "files", *schema["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "servekit model archive manifest",
        **schema,
        "required": sorted(required),
    }


if __name__ == "__main__":
    print(json.dumps(manifest_schema(), indent=2))
