# SPDX-License-Identifier: Apache-2.0
"""Typed inputs and outputs: the annotations are the schema."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from servekit import InputError, Service

EUR_PER_KG = {"DE": 2.0, "FR": 3.0, "US": 9.0}
DAYS = {"DE": 2, "FR": 4, "US": 9}


class Parcel(Struct):
    """What a client sends."""

    weight_kg: Annotated[float, Meta(gt=0, le=30)]
    to: Literal["DE", "FR", "US"]
    express: bool = False


class Quote(Struct):
    """What it gets."""

    price_eur: float
    days: int


class Shipping(Service):
    """Quotes parcels."""

    def predict(self, batch: list[Parcel]) -> list[Quote | InputError]:
        """Quote each parcel; every one has been checked against ``Parcel`` before."""
        return [quote(parcel) for parcel in batch]


def quote(parcel: Parcel) -> Quote | InputError:
    """Return the quote, or what is wrong beyond the types."""
    if parcel.express and parcel.to == "US":
        return InputError("express: not offered to US")
    price = 5 + EUR_PER_KG[parcel.to] * parcel.weight_kg
    days = DAYS[parcel.to]
    if parcel.express:
        return Quote(price_eur=2 * price, days=1)
    return Quote(price_eur=price, days=days)
