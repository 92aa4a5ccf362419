# SPDX-License-Identifier: Apache-2.0
"""Loads models and tokenizers from the model directory, and from nowhere else. Runs in: worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from servekit.errors import BootError
from servekit_huggingface.checkpoint import check_weights, read_json
from servekit_huggingface.library import torch, transformers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from servekit import Context
    from servekit_huggingface.options import TransformersOptions

__all__ = ["CheckpointLoader", "text_limit"]

REASON_CHARS: Final = 300  #: characters of a message of transformers
FILES: Final = ("config.json", "tokenizer_config.json", "preprocessor_config.json")
REMOTE_CODE = (
    "[options] trust_remote_code: Python files of a checkpoint would run with the rights of this "
    "worker, and nobody has reviewed them; write a service class that imports the code you trust"
)
NEEDS_CODE = (
    "{file}: auto_map: transformers {version} does not know this model, and would need Python "
    "files of the checkpoint, which are not run; write a service class that imports the code"
)


class CheckpointLoader:
    """Loads the parts of one model."""

    def __init__(self, context: Context, options: TransformersOptions) -> None:
        """Load from the directory of *context*, for the device and the threads of this replica.

        :raises BootError: *options* ask for something that is refused, or is not there.
        """
        if options.trust_remote_code:
            raise BootError(REMOTE_CODE)
        torch.set_num_threads(context.threads)
        self.directory, self._options = context.directory, options
        self._logger = context.logger
        self.device = _device(options.device)

    def model(self, kind: Any, *, spare: Sequence[str] = ()) -> Any:
        """Return the model, for inference only.

        :param kind: a class of transformers, ``AutoModelForCausalLM``.
        :param spare: weights that may be missing, by the beginning of their names.
        :raises BootError: it cannot be loaded, or weights are missing.
        """
        is_safe = check_weights(self.directory, allow_pickle=self._options.allow_pickle)
        dtype = self._options.dtype
        model, report = self._load(
            kind,
            use_safetensors=is_safe,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            output_loading_info=True,
        )
        missing = sorted(n for n in report["missing_keys"] if not n.startswith(tuple(spare)))
        if missing:
            raise BootError(
                f"the weights lack {', '.join(missing[:3])} ({len(missing)} in all) of "
                f"{type(model).__name__}: the model was saved for another task"
            )
        placed = model.to(self.device).requires_grad_(False).eval()
        self._logger.info(
            "%s on %s, %s, %.0f MB",
            *(type(model).__name__, self.device, placed.dtype, placed.get_memory_footprint() / 1e6),
        )
        return placed

    def tokenizer(self) -> Any:
        """Return the tokenizer, which pads with its end token if it has no other for that.

        :raises BootError: it cannot be loaded, or has no vocabulary.
        """
        tokenizer = self._load(transformers.AutoTokenizer)
        if len(tokenizer) <= len(tokenizer.all_special_tokens):  # made up by transformers
            raise BootError("there is no tokenizer: save it beside the model (tokenizer.json)")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        return tokenizer

    def image_processor(self) -> Any:
        """Return the image processor, which uses Pillow."""
        return self._load(transformers.AutoImageProcessor, backend="pil")

    def _load(self, kind: Any, **arguments: Any) -> Any:
        load: Callable[..., Any] = kind.from_pretrained
        try:
            return load(self.directory, local_files_only=True, trust_remote_code=False, **arguments)
        except Exception as error:
            if (file := _needs_code(self.directory)) and "trust_remote_code" in str(error):
                reason = NEEDS_CODE.format(file=file, version=transformers.__version__)
                raise BootError(reason) from None
            said = " ".join(str(error).split())[:REASON_CHARS]
            raise BootError(f"transformers cannot load it: {said}") from error


def _needs_code(directory: Path) -> str:
    """Return the file that names Python files of the checkpoint; "" if none does."""
    return next((name for name in FILES if "auto_map" in (read_json(directory / name) or {})), "")


def _device(name: str) -> Any:
    """Return the device *name*.

    :raises BootError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        said = str(error).split("\n")[0][:REASON_CHARS]
        raise BootError(f"[options] device: {name!r} cannot be used ({said})") from None


def text_limit(model: Any, tokenizer: Any, wanted: int | None) -> int:
    """Return the longest input of *model* in tokens, at most *wanted*."""
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", None)
    limits = (wanted, tokenizer.model_max_length, positions and positions - _first_position(model))
    return min(limit for limit in limits if limit)


def _first_position(model: Any) -> int:
    """Return the position of the first token: RoBERTa and its like begin after that of padding."""
    tables = (
        module.padding_idx
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding)
    )
    return max((padding + 1 for padding in tables if padding is not None), default=0)
