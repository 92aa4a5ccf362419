# SPDX-License-Identifier: Apache-2.0
"""The handlers of images. They read images by Pillow and need no torchvision. Runs in: worker."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any, Final

from servekit.vision import center_crop, normalize, resize_shorter, to_array
from servekit_torchserve.builtin.base_handler import BaseHandler
from servekit_torchserve.builtin.labels import map_class_to_label

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ImageClassifier", "ImageSegmenter", "ObjectDetector", "VisionHandler"]

SHORTER_SIDE: Final = 256
CROP: Final = (224, 224)
MEAN: Final = (0.485, 0.456, 0.406)  #: ImageNet's
DEVIATION: Final = (0.229, 0.224, 0.225)


def to_tensor(image: Image) -> Any:
    """Return *image* as a tensor ``[3, height, width]`` of float32 from 0 to 1."""
    import torch

    return torch.from_numpy(normalize(to_array(image)))


def crop_and_normalise(image: Image) -> Any:
    """Return the centre of *image* as models trained with ImageNet expect it."""
    import torch

    picture = center_crop(resize_shorter(image, SHORTER_SIDE), CROP)
    return torch.from_numpy(normalize(to_array(picture), mean=MEAN, std=DEVIATION))


class VisionHandler(BaseHandler):
    """Reads images; ``image_processing`` makes a tensor of each."""

    image_processing: Any = staticmethod(to_tensor)

    def initialize(self, context: Any) -> None:
        """Load the model, and lift Pillow's limit on pixels if the configuration says so."""
        super().initialize(context)
        if not context.system_properties.get("limit_max_image_pixels", True):
            from PIL import Image

            Image.MAX_IMAGE_PIXELS = None

    def preprocess(self, data: Any) -> Any:
        """Return the images of a batch, which must have one size, as a tensor."""
        import torch

        images = [self._image(row.get("data") or row.get("body")) for row in data]
        return torch.stack(images).to(self.device)

    def _image(self, content: Any) -> Any:
        """Return the tensor of one image: encoded, as base64 of that, or numbers."""
        import torch

        if isinstance(content, str):
            content = base64.b64decode(content)
        if isinstance(content, bytes | bytearray):
            from PIL import Image

            return self.image_processing(Image.open(io.BytesIO(content)))
        return torch.FloatTensor(content)

    def get_insights(self, tensor_data: Any, raw_data: Any, target: Any = 0) -> Any:
        """Return the attribution of each pixel, by Captum's integrated gradients."""
        from captum.attr import IntegratedGradients

        found = IntegratedGradients(self.model).attribute(tensor_data, target=int(target))
        return found.tolist()


class ImageClassifier(VisionHandler):
    """Returns the most probable classes of an image."""

    topk = 5
    image_processing: Any = staticmethod(crop_and_normalise)

    def set_max_result_classes(self, topk: int) -> None:
        """Return *topk* classes."""
        self.topk = topk

    def get_max_result_classes(self) -> int:
        """Return how many classes are returned."""
        return self.topk

    def postprocess(self, data: Any) -> list[Any]:
        """Return ``{label: probability}`` for each image, the most probable class first."""
        probabilities = data.softmax(dim=1)
        found, classes = probabilities.topk(min(self.topk, probabilities.shape[1]), dim=1)
        return map_class_to_label(found.tolist(), self.mapping, classes.tolist())


class ObjectDetector(VisionHandler):
    """Returns the objects in an image."""

    threshold = 0.5  #: for scores

    def postprocess(self, data: Any) -> list[Any]:
        """Return ``{label: [x1, y1, x2, y2], "score": ...}`` for each object of each image."""
        return [self._objects(found) for found in data]

    def _objects(self, found: Any) -> list[dict[str, Any]]:
        kept = found["scores"] >= self.threshold
        parts = (found[name][kept].tolist() for name in ("labels", "boxes", "scores"))
        return [
            {self.mapping[str(label)] if self.mapping else str(label): box, "score": score}
            for label, box, score in zip(*parts, strict=True)
        ]


class ImageSegmenter(VisionHandler):
    """Returns the most probable class of each pixel."""

    image_processing: Any = staticmethod(crop_and_normalise)

    def postprocess(self, data: Any) -> list[Any]:
        """Return ``[class, probability]`` for each pixel of each image."""
        import torch

        found = data["out"] if isinstance(data, dict) else data
        probabilities, classes = found.softmax(dim=1).max(dim=1)
        pairs: list[Any] = torch.stack(
            (classes.type(probabilities.dtype), probabilities), 3
        ).tolist()
        return pairs
