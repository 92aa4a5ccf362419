# SPDX-License-Identifier: Apache-2.0
"""From text to the ids of its tokens, by a file of the ``tokenizers`` of Hugging Face."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from servekit_archiver.names import name_problem

from servekit.errors import BootError
from servekit_onnx.options import TextOptions

__all__ = ["TextTokenizer", "TokenIds"]

PADDING = ("[PAD]", "<pad>")


class TokenIds(NamedTuple):
    """The tokens of one input."""

    ids: list[int]
    type_ids: list[int]  #: for each token, the sequence that it belongs to


class TextTokenizer:
    """Makes ids of text, and cuts off what is too long."""

    def __init__(self, directory: Path, options: TextOptions, longest: int) -> None:
        """Read the file that *options* name.

        :param longest: number of tokens that the graph takes, -1 for any.
        :raises BootError: it is not there or broken, or the package is not installed.
        """
        self._tokenizer = _read(directory, options.tokenizer)
        limits = [options.max_length, (self._tokenizer.truncation or {}).get("max_length")]
        limit = next((each for each in limits if each), None)
        if longest != -1:
            if options.max_length is not None and options.max_length > longest:
                raise BootError(
                    f"[options.text] max_length: {options.max_length} is above the {longest} "
                    "tokens that the graph takes"
                )
            limit = min(limit or longest, longest)
        self._limit = limit
        if limit is not None:
            self._tokenizer.enable_truncation(limit)
        padding = self._tokenizer.padding or {}
        self._tokenizer.no_padding()
        known = (self._tokenizer.token_to_id(token) for token in PADDING)
        found = (each for each in (padding.get("pad_id"), *known) if each is not None)
        self.padding: int = next(found, 0)  #: id that fills up the shorter rows of a batch

    def tokens(self, texts: Sequence[str | list[int]]) -> list[TokenIds]:
        """Return the tokens of each text; ids are cut off only."""
        made = self._tokenizer.encode_batch([each for each in texts if isinstance(each, str)])
        encodings = iter(made)
        return [
            self._encoded(next(encodings)) if isinstance(each, str) else self._given(each)
            for each in texts
        ]

    def _encoded(self, encoding: Any) -> TokenIds:
        return TokenIds(encoding.ids, encoding.type_ids)

    def _given(self, ids: list[int]) -> TokenIds:
        kept = ids[: self._limit]
        return TokenIds(kept, [0] * len(kept))


def _read(directory: Path, file: str) -> Any:
    path = directory / file
    if name_problem(file) or not path.is_file():
        raise BootError(f"[options.text] tokenizer: {file!r} is not in the archive")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise BootError(
            f"{file} needs tokenizers, pip install 'servekit-onnx[text]'; or declare a "
            "[signature] to take token ids"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - tokenizers has no base class
        raise BootError(f"{file}: tokenizers cannot read it ({error})") from None
