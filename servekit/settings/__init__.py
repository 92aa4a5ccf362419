# SPDX-License-Identifier: Apache-2.0
"""Every option of ``servekit start``, written once.

A field is a flag (``--max-body``), a key of ``servekit.toml`` (``max_body``) and a
variable (``SERVEKIT_MAX_BODY``); the flag wins over the variable, the variable over the
file, the file over the default.

    fields      what there is
    values      what a value may be
    addresses   where to listen
    sources     where it comes from
    models      what --models names, and what is in a directory
"""

from servekit.settings.fields import Option, Settings, options
from servekit.settings.models import ModelSource, find_models, parse_models
from servekit.settings.sources import SettingsError, load_settings

__all__ = [
    "ModelSource",
    "Option",
    "Settings",
    "SettingsError",
    "find_models",
    "load_settings",
    "options",
    "parse_models",
]
