# SPDX-License-Identifier: Apache-2.0
"""The text of ``compose.yaml``, ``prometheus.yml`` and ``kubernetes.yaml``."""

from servekit.settings import Settings
from servekit_container.dockerfile import CACHE, PORT, USER_ID
from servekit_container.image import ImagePlan

__all__ = ["compose", "kubernetes", "prometheus"]

SPARE_S = 5  #: after the grace period, for the processes to end
DRAIN_DELAY_S = 5  #: until the last proxy of a cluster has heard that a pod leaves

COMPOSE = """\
# docker compose up --build --wait
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
    volumes: ["./prometheus.yml:/etc/prometheus/prometheus.yml:ro"]
    ports: ["127.0.0.1:9090:9090"]
    depends_on: [servekit]
    restart: unless-stopped
"""

PROMETHEUS = """\
global:
  scrape_interval: 15s
scrape_configs:
  - job_name: servekit
    static_configs:
      - targets: ["servekit:{port}"]
"""

KUBERNETES = """\
# kubectl apply -f kubernetes.yaml, once the image is where the cluster finds it.
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
      labels: {{app: {name}}}
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
    """Return a server of *image*, and a Prometheus that watches it."""
    mount = f"    volumes: [cache:{CACHE}] # the assets, which its first start fetches\n"
    text = COMPOSE.format(
        tag=image.tag,
        port=PORT,
        stop=round(Settings().grace) + SPARE_S,
        volumes=mount if image.fetches_at_start else "",
    )
    return text + ("volumes:\n  cache: {}\n" if image.fetches_at_start else "")


def prometheus() -> str:
    """Return what Prometheus is to scrape."""
    return PROMETHEUS.format(port=PORT)


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
