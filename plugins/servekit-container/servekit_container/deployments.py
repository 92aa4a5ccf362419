# SPDX-License-Identifier: Apache-2.0
"""The text of ``compose.yaml``, and the files in ``monitoring/``."""

import subprocess
import sys
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit_container.dockerfile import CACHE, MOUNT, PORT
from servekit_container.image import ImagePlan

__all__ = ["compose", "write_monitoring"]

SPARE_S = 5  #: after the grace period, for the processes to end

COMPOSE = """\
# docker compose up --build --wait
# Prometheus answers at http://127.0.0.1:9090, Grafana at http://127.0.0.1:3000.
# Settings: any SERVEKIT_* variable of docs/settings.md, below environment.
services:
  servekit:
    build: .
    image: "{tag}"
    ports: ["127.0.0.1:{port}:{port}"] # without the address: for other machines too
    environment: {{}}
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    stop_grace_period: {stop}s
    restart: unless-stopped
{volumes}
  prometheus:
    image: prom/prometheus:v3.5.0
    command: ["--config.file=/etc/prometheus/prometheus.yml", "--enable-feature=exemplar-storage"]
    volumes:
      - ./monitoring/prometheus.yml:/etc/prometheus/prometheus.yml:ro
      - ./monitoring/rules:/etc/prometheus/rules:ro
    ports: ["127.0.0.1:9090:9090"]
    depends_on: [servekit]
    restart: unless-stopped
  grafana:
    image: grafana/grafana:12.0.0
    environment: {{GF_AUTH_ANONYMOUS_ENABLED: "true"}} # to look, not to change
    volumes:
      - ./monitoring/grafana:/etc/grafana/provisioning:ro
      - ./monitoring/dashboards:/var/lib/grafana/dashboards:ro
    ports: ["127.0.0.1:3000:3000"]
    depends_on: [prometheus]
    restart: unless-stopped
"""


def compose(image: ImagePlan) -> str:
    """Return a server of *image*, a Prometheus that watches it, and a Grafana."""
    if image.models:
        mount = f"    volumes: [cache:{CACHE}] # the assets, which its first start fetches\n"
    else:
        mount = f"    volumes: [./models:{MOUNT}:ro] # the model\n"
    text = COMPOSE.format(
        tag=image.tag,
        port=PORT,
        stop=round(Settings().grace) + SPARE_S,
        volumes=mount if image.fetches_at_start or not image.models else "",
    )
    return text + ("volumes:\n  cache: {}\n" if image.fetches_at_start else "")


def write_monitoring(directory: Path) -> None:
    """Write dashboards, alerts and the configuration of Prometheus into *directory*.

    :raises StartupError: ``servekit dashboards`` fails.
    """
    command = [sys.executable, "-m", "servekit", "dashboards", str(directory)]
    command += ["--target", f"servekit:{PORT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartupError(done.stderr.strip())
