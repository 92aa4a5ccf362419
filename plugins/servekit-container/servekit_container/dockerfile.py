# SPDX-License-Identifier: Apache-2.0
"""The text of ``Dockerfile`` and ``.dockerignore``."""

import json
from collections.abc import Iterator

from servekit import __version__
from servekit_container.image import ImagePlan

__all__ = ["CACHE", "MOUNT", "PORT", "USER_ID", "dockerfile", "dockerignore"]

USER_ID = 10001  #: by number, so that Kubernetes can see that it is not root
PORT = 8080
CACHE = "/var/cache/servekit"
TMP_CACHE = "/tmp/servekit-cache"  # noqa: S108 - private to the container, and always writable
MOUNT = "/mnt/models"  #: where KServe and others put a model
FETCH_S = 3600.0  #: for assets; the first time that it is healthy ends it
BIN = "/opt/servekit/bin"

#: no curl is needed, and no proxy of the environment is asked
PROBE = (
    "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', {port}, timeout=4);"
    " c.request('GET', '/ping'); sys.exit(c.getresponse().status != 200)"
)

HEAD = """\
# Written by servekit {version}; `servekit dockerfile --force` writes it again.
# The base needs Python and, on Debian, its venv module.
ARG BASE={base}

# The packages, at the versions of the machine that this was written on.
FROM ${{BASE}} AS packages
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python3 -m venv /opt/servekit
"""

# A platform may choose another user, whose group is then 0: this group may do what the user may.
USER = """
FROM ${{BASE}}
RUN groupadd --gid {uid} servekit \\
 && useradd --uid {uid} --gid {uid} --no-create-home --home-dir /tmp servekit \\
 && install -d -o {uid} -g 0 -m 0770 {cache}
COPY --from=packages /opt/servekit /opt/servekit
"""

TAIL = """\
WORKDIR /srv
USER {uid}:{uid}
EXPOSE {port}
# SIGTERM drains: what was taken is answered, then the container ends with status 0.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period={start:.12g}s \\
    CMD {probe}
ENTRYPOINT ["servekit"]
CMD {command}
"""


def dockerfile(image: ImagePlan) -> str:
    """Return the recipe of *image*, in stages: packages, models if it has any, and what is kept."""
    parts = [
        HEAD.format(version=__version__, base=image.base),
        *_packages(image),
        *_models(image),
        USER.format(uid=USER_ID, cache=CACHE),
        *_kept(image),
        TAIL.format(
            uid=USER_ID,
            port=PORT,
            start=FETCH_S if image.fetches_at_start else image.load_timeout_s,
            probe=json.dumps(["python3", "-c", PROBE.format(port=PORT)]),
            command=json.dumps(["start", *(model.argument for model in image.models)]),
        ),
    ]
    return "".join(parts)


def _packages(image: ImagePlan) -> Iterator[str]:
    own = [model.requirements_file for model in image.with_requirements]
    yield f"COPY {' '.join(['requirements.txt', *own])} /tmp/requirements/\n"
    links = ""
    if image.has_wheels:
        yield "COPY wheels/ /tmp/wheels/\n"
        links = " --find-links /tmp/wheels"
    files = ["requirements.txt", *(path.rpartition("/")[2] for path in own)]
    wanted = "".join(f" \\\n    --requirement /tmp/requirements/{name}" for name in files)
    yield f"RUN {BIN}/pip install --no-cache-dir --disable-pip-version-check{links}{wanted}\n"


def _models(image: ImagePlan) -> Iterator[str]:
    if not image.models:
        return
    yield "\n# Every file of an archive is compared with its digest while it is unpacked.\n"
    yield "FROM packages AS models\n"
    for model in image.models:
        yield f"COPY {model.archive} /tmp/models/\n"
        yield (
            f"RUN {BIN}/servekit-archive extract --with-manifest"
            f" /tmp/{model.archive} {model.directory}\n"
        )
    if image.has_assets_inside:
        for model in image.with_assets:
            yield f"RUN {BIN}/servekit assets {model.directory} --cache-dir {CACHE}\n"


def _kept(image: ImagePlan) -> Iterator[str]:
    if not image.models:
        yield f"# What is at {MOUNT} is served.\n"
        yield f"ENV PATH={BIN}:$PATH \\\n    SERVEKIT_HOST=0.0.0.0 \\\n"
        yield f"    SERVEKIT_MODELS=model={MOUNT} \\\n    SERVEKIT_CACHE_DIR={TMP_CACHE}\n"
        return
    yield "COPY --from=models /srv/models /srv/models\n"
    if image.with_assets and image.has_assets_inside:
        yield f"COPY --from=models --chown={USER_ID}:0 {CACHE} {CACHE}\n"
    digests = " ".join(
        f"{model.name}/{model.manifest.version}@{model.digest}" for model in image.models
    )
    yield f'LABEL servekit.models="{digests}"\n'
    yield f"ENV PATH={BIN}:$PATH \\\n    SERVEKIT_HOST=0.0.0.0 \\\n    SERVEKIT_CACHE_DIR={CACHE}"
    yield " \\\n    SERVEKIT_FETCH_ASSETS=true\n" if image.fetches_at_start else "\n"


def dockerignore(image: ImagePlan) -> str:
    """Return what keeps everything out of the build but what ``Dockerfile`` copies."""
    own = [model.requirements_file for model in image.with_requirements]
    kept = ["requirements.txt", *own, *(model.archive for model in image.models)]
    lines = ["*", *(f"!{path}" for path in kept), *(["!wheels"] if image.has_wheels else [])]
    return "\n".join(lines) + "\n"
