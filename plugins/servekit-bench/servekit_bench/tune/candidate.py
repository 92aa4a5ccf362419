# SPDX-License-Identifier: Apache-2.0
"""Settings of one model, as they are tried and recommended."""

from dataclasses import dataclass

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Candidate:
    """The settings that ``servekit tune`` chooses."""

    max_batch_size: int
    max_delay_ms: float = 0.0
    replicas: int = 1
    threads: int = 0  #: in each worker; 0 leaves it to the server
    front_ends: int = 1

    @property
    def label(self) -> str:
        """The settings in one line, without those that are usual."""
        parts = [f"batch {self.max_batch_size}"]
        if self.max_delay_ms:
            parts.append(f"delay {self.max_delay_ms:g} ms")
        parts.append(f"replicas {self.replicas}")
        if self.threads:
            parts.append(f"threads {self.threads}")
        if self.front_ends > 1:
            parts.append(f"front-ends {self.front_ends}")
        return ", ".join(parts)

    def assignments(self, model: str) -> list[str]:
        """Return the values of ``--set`` for *model*."""
        name = f'"{model}"'
        found = [
            f"{name}.batching.max_batch_size={self.max_batch_size}",
            f"{name}.batching.max_delay_ms={self.max_delay_ms:g}",
            f"{name}.replicas={self.replicas}",
        ]
        return [*found, f"{name}.threads={self.threads}"] if self.threads else found

    def to_toml(self, model: str) -> str:
        """Return them as a part of ``servekit.toml``."""
        front_ends = [f"front_ends = {self.front_ends}", ""] if self.front_ends > 1 else []
        threads = [f"threads = {self.threads}"] if self.threads else []
        lines = [
            *front_ends,
            f'[models."{model}"]',
            f"replicas = {self.replicas}",
            *threads,
            "",
            f'[models."{model}".batching]',
            f"max_batch_size = {self.max_batch_size}",
            f"max_delay_ms = {self.max_delay_ms:g}",
        ]
        return "\n".join(lines) + "\n"
