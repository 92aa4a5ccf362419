# SPDX-License-Identifier: Apache-2.0
"""torch and transformers, imported so that nothing is fetched. Runs in: worker.

Import them from here: the variables must be set before huggingface_hub is imported, and
transformers must not find torchvision. Its image processors then use Pillow, so answers do not
depend on what else is installed, and text models do not spend time on importing it.
"""

import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a replica tokenizes one batch at a time

torchvision = sys.modules.get("torchvision")
sys.modules["torchvision"] = None  # type: ignore[assignment]

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.cache_utils import Cache, DynamicLayer  # noqa: E402
from transformers.utils import is_torchvision_available, logging  # noqa: E402

is_torchvision_available.cache_clear()
is_torchvision_available()  # remembers that it is not
del sys.modules["torchvision"]
if torchvision is not None:
    sys.modules["torchvision"] = torchvision

logging.set_verbosity_error()
logging.disable_progress_bar()

__all__ = ["Cache", "DynamicLayer", "torch", "transformers"]
