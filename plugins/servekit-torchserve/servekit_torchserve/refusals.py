# SPDX-License-Identifier: Apache-2.0
"""The exception by which a handler chooses the response to its batch."""

__all__ = ["PredictionException"]


class PredictionException(Exception):
    """A handler raises it to choose the status and the message of the response."""

    def __init__(self, message: str, error_code: int = 500) -> None:
        """Answer with *message* and the status *error_code*."""
        super().__init__(message)
        self.message, self.error_code = message, error_code

    def __str__(self) -> str:
        """Return the message and the status."""
        return f"message : {self.message} error code : {self.error_code}"
