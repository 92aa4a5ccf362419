# SPDX-License-Identifier: Apache-2.0
"""Types of the arguments of ``servekit kube``. Each says what is wrong with an argument."""

import argparse
import re
from urllib.parse import urlsplit

from servekit.settings.values import size
from servekit_kubernetes.plan import Range

__all__ = [
    "cores",
    "label",
    "mebibytes",
    "namespace",
    "scaling",
    "url",
    "variable",
]

LABEL = re.compile(r"[a-z]([a-z0-9-]{0,51}[a-z0-9])?")
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
RANGE = re.compile(r"([1-9]\d{0,3}):([1-9]\d{0,3})")
CORES = re.compile(r"0*[1-9]\d*m?|\d+\.\d{1,3}")
MIB = 2**20


def label(text: str) -> str:
    """Check a name of Kubernetes; some space is left for the suffixes of pods and Services."""
    if not LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not 1 to 53 of a-z, 0-9 and '-' that begin with a letter"
        )
    return text


def namespace(text: str) -> str:
    """Check the name of a namespace."""
    if not NAMESPACE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 63 of a-z, 0-9 and '-'")
    return text


def variable(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``."""
    if not (found := VARIABLE.fullmatch(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return found[1], found[2]


def cores(text: str) -> str:
    """Check a number of cores, as Kubernetes writes it."""
    if not CORES.fullmatch(text) or not float(text.removesuffix("m")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cores, such as 2 or 500m")
    return text


def mebibytes(text: str) -> int:
    """Parse ``2GiB``."""
    try:
        count = size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 2GiB") from error
    if count < MIB:
        raise argparse.ArgumentTypeError(f"{text!r} is below 1MiB")
    return round(count / MIB)


def url(text: str) -> str:
    """Check a URL."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL, such as http://prometheus:9090")
    return text


def scaling(text: str) -> Range:
    """Parse ``2:8``."""
    found = RANGE.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not MIN:MAX, such as 2:8")
    return Range(int(found[1]), int(found[2]))
