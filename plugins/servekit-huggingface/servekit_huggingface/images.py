# SPDX-License-Identifier: Apache-2.0
"""The service ``huggingface-image-classification``."""

from servekit import Context, Service
from servekit.types import Image
from servekit.vision import RankedLabel
from servekit_huggingface.labels import class_output
from servekit_huggingface.library import torch, transformers
from servekit_huggingface.loading import CheckpointLoader
from servekit_huggingface.options import ClassifierOptions

__all__ = ["HuggingFaceImages"]


class HuggingFaceImages(Service):
    """Returns the labels of images."""

    def load(self, context: Context) -> None:
        """Load the model, its image processor and the names of the classes."""
        options = context.read_options(ClassifierOptions)
        loader = CheckpointLoader(context, options)
        self._processor = loader.image_processor()
        self._model = loader.model(transformers.AutoModelForImageClassification)
        self._output = class_output(self._model.config, options.output, context.directory)

    def predict(self, batch: list[Image]) -> list[list[RankedLabel]]:
        """Return the labels of each image."""
        images = [image.convert("RGB") for image in batch]
        pixels = self._processor(images, return_tensors="pt")["pixel_values"]
        placed = pixels.to(self._model.device, self._model.dtype)
        with torch.inference_mode():
            logits = self._model(pixel_values=placed).logits
        return self._output.answers(logits.float().cpu().numpy())
