# SPDX-License-Identifier: Apache-2.0
"""The text of ``compose.yaml`` and ``kubernetes.yaml``, and the files in ``monitoring/``."""

import subprocess
import sys
from pathlib import Path

from servekit.errors import StartupError
from servekit.settings import Settings
from servekit_container.dockerfile import CACHE, PORT, USER_ID
from servekit_container.image import ImagePlan

__all__ = ["compose", "kubernetes", "write_monitoring"]

SPARE_S = 5  #: after the grace period, for the processes to end
DRAIN_DELAY_S = 5  #: until the last proxy of a cluster has heard that a pod leaves

COMPOSE = """\
# docker compose up --build --wait
# Prometheus answers at http://127.0.0.1:9090, Grafana at http://127.0.0.1:3000.
# Settings: any SERVEKIT_* variable of docs/settings.md, below environment.
services:
  servekit:
    build: .
    image: {tag}
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

KUBERNETES = """\
# kubectl apply -f kubernetes.yaml, once the image is where the cluster finds it.
# monitoring/kubernetes.yaml: dashboards and alerts, where there is the operator of Prometheus.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: 1
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}, servekit.io/metrics: "true"}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "{port}"
    spec:
      # the delay, the grace period of the server, and some to spare
      terminationGracePeriodSeconds: {stop}
      securityContext:
        runAsNonRoot: true
        runAsUser: {uid}
        runAsGroup: {uid}
        fsGroup: {uid}
        seccompProfile: {{type: RuntimeDefault}}
      containers:
        - name: servekit
          image: {tag}
          env:
            # after SIGTERM it serves on until the last proxy knows that it leaves
            - {{name: SERVEKIT_DRAIN_DELAY, value: "{delay}"}}
          ports:
            - {{name: http, containerPort: {port}}}
          # alive while it answers, ready while every model does; models may load meanwhile
          livenessProbe:
            httpGet: {{path: /ping/live, port: http}}
            initialDelaySeconds: 10
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {{path: /ping, port: http}}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            requests:
              cpu: "{cpus}" # a core for each worker, and one for the front-end
              # memory: `servekit check MODEL` says what a worker takes
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          volumeMounts:
            - {{name: tmp, mountPath: /tmp}}{mounts}
      volumes:
        - {{name: tmp, emptyDir: {{}}}}{volumes}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector: {{app: {name}}}
  ports:
    - {{name: http, port: 80, targetPort: http}}
"""


def compose(image: ImagePlan) -> str:
    """Return a server of *image*, a Prometheus that watches it, and a Grafana."""
    mount = f"    volumes: [cache:{CACHE}] # the assets, which its first start fetches\n"
    text = COMPOSE.format(
        tag=image.tag,
        port=PORT,
        stop=round(Settings().grace) + SPARE_S,
        volumes=mount if image.fetches_at_start else "",
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


def kubernetes(image: ImagePlan) -> str:
    """Return a Deployment and a Service of *image*."""
    keeps = image.fetches_at_start
    return KUBERNETES.format(
        name=image.label,
        tag=image.tag,
        port=PORT,
        uid=USER_ID,
        delay=DRAIN_DELAY_S,
        stop=DRAIN_DELAY_S + round(Settings().grace) + SPARE_S,
        cpus=image.workers + 1,
        mounts=f"\n            - {{name: cache, mountPath: {CACHE}}}" if keeps else "",
        volumes="\n        - {name: cache, emptyDir: {}}" if keeps else "",
    )
