# SPDX-License-Identifier: Apache-2.0
"""Finds the codec of a media type among those of the plugins, built in and installed."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from servekit.errors import PluginError
from servekit.hookspecs import ReadOnly
from servekit.ipc.batches import ELEMENT, MODEL_VALUE, MODEL_VALUES, VALUE, VALUES
from servekit.plugins import PluginManager, choose, collect, import_target

__all__ = ["Codec", "CodecTable", "import_codec"]

#: between the stages of a model only: clients are never told of them
INTERNAL: Final = {
    VALUE: "servekit.worker.codecs.value:value",
    ELEMENT: "servekit.worker.codecs.value:value",
    VALUES: "servekit.worker.codecs.value:values",
    MODEL_VALUE: "servekit.worker.codecs.value:model_value",
    MODEL_VALUES: "servekit.worker.codecs.value:model_values",
}


class Codec(Protocol):
    """Reads and writes the bodies of one media type; either half may be ``None``.

    ``decode`` gets the body and the parameters of its ``Content-Type``. It raises
    ``BodyMalformed``. If the attribute ``takes_views`` is true, the body may be a memoryview.

    ``encode`` gets the output, or ``{"prediction": output}`` if ``is_enveloped`` is true. It raises
    ``TypeError`` if its media type is not made for such an output, so that the next one of
    ``Accept`` is tried, and ``ResultNotEncodable`` for something in an output that it is made for.
    """

    decode: Callable[[bytes, Mapping[str, str]], Any] | None
    encode: Callable[[Any], bytes] | None


class CodecTable:
    """Media type, or range such as ``image/*``, to codec; imported when first asked for."""

    def __init__(self, manager: PluginManager) -> None:
        """Collect what the plugins of *manager* offer.

        :raises PluginError: two plugins offer one media type.
        """
        self._targets: dict[str, str] = {}
        self._codecs: dict[str, Codec] = {}
        self._replaced: set[str] = set()
        for name, offers in collect(manager, "register_codecs").items():
            self._targets[name.lower()] = choose(name, offers)
            if not offers[0].is_builtin:
                self._replaced.add(name.lower())

    @property
    def media_types(self) -> list[str]:
        """The media types that plugins offer, built-in ones first."""
        return list(self._targets)

    @property
    def written(self) -> list[str]:
        """Those of ``media_types`` that can be written, without ranges; imports no codec."""
        return [
            name
            for name, target in self._targets.items()
            if not name.endswith("/*") and not isinstance(target, ReadOnly)
        ]

    def reads(self, media_type: str) -> Collection[str] | None:
        """Return the kinds of values that a plugin reads; ``None`` if it does not say."""
        return getattr(self._targets[media_type], "reads", None)

    def writes(self, media_type: str) -> Collection[str] | None:
        """Return the kinds of values that a plugin writes; ``None`` if it does not say."""
        return getattr(self._targets[media_type], "writes", None)

    def is_builtin(self, media_type: str) -> bool:
        """Whether no installed plugin offers a codec of *media_type*."""
        return media_type not in self._replaced

    def internal(self, media_type: str) -> Codec | None:
        """Return the codec of *media_type* if it is one of those between stages."""
        if media_type not in INTERNAL:
            return None
        return import_codec(media_type, INTERNAL[media_type])

    def reader(self, media_type: str) -> Codec | None:
        """Return the codec that decodes *media_type*, by its suffix ``+json`` if need be."""
        names = [media_type, _range_of(media_type)]
        if media_type.endswith("+json"):
            names.append("application/json")
        return self._first(names, "decode")

    def writer(self, media_type: str) -> Codec | None:
        """Return the codec that encodes *media_type*."""
        names = [media_type, _range_of(media_type)]
        offered = [name for name in names if not isinstance(self._targets.get(name), ReadOnly)]
        return self._first(offered, "encode")

    def _first(self, names: list[str], half: str) -> Codec | None:
        codecs = (self._codec(name) for name in names if name in self._targets)
        return next((codec for codec in codecs if getattr(codec, half, None)), None)

    def _codec(self, name: str) -> Codec:
        if name not in self._codecs:
            self._codecs[name] = import_codec(name, self._targets[name])
        return self._codecs[name]


def _range_of(media_type: str) -> str:
    return media_type.partition("/")[0] + "/*"


def import_codec(media_type: str, target: str) -> Codec:
    """Import ``module:object``.

    :raises PluginError: it cannot be imported.
    """
    try:
        codec: Codec = import_target(target)
    except PluginError as error:
        raise PluginError(f"{media_type}: {error}") from error
    return codec
