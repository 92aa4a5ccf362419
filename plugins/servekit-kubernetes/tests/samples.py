# SPDX-License-Identifier: Apache-2.0
"""A plan, and the files that are rendered from it."""

from dataclasses import replace

from servekit_dashboards.files import Targets, files
from servekit_kubernetes.plan import ImageFacts, KubePlan, Range

IMAGE = ImageFacts(
    name="digits",
    tag="registry.example/digits:1.0",
    workers=2,
    load_timeout_s=120.0,
    fetches_at_start=False,
    port=8080,
    user_id=10001,
    cache_dir="/var/cache/servekit",
)
PLAN = KubePlan(
    image=IMAGE,
    name="digits",
    namespace="models",
    replicas=3,
    scaling=Range(2, 8),
    queue_time_s=0.2,
    prometheus="http://prometheus-operated.monitoring:9090",
    memory_mib=512,
    cpus="3",
)
DASHBOARDS = files(Targets("servekit", ["127.0.0.1:8080"]))["kubernetes.yaml"]


def plan(**changes):
    """Return the plan with *changes*, to its image too."""
    names = ImageFacts.__dataclass_fields__
    of_image = {key: value for key, value in changes.items() if key in names and key != "name"}
    own = {key: value for key, value in changes.items() if key not in of_image}
    return replace(PLAN, image=replace(IMAGE, **of_image), **own)


def write(directory, files):
    """Write *files*, path to text, into *directory*."""
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    return directory
