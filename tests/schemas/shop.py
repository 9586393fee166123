"""Classes of a shop, from which the tests derive schemas, and Protobuf messages with an import."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel, Field

from ottla.schemas import Digits

NO_TICKET = UUID(int=7)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Item:
    """What is ordered."""

    name: str
    price: Annotated[Decimal, Digits(12, 2)]
    size: Size = Size.SMALL


@dataclass
class Order:
    """An order of a table."""

    id: int
    items: list[Item] = field(default_factory=list)
    note: str | None = None
    paid: bool = False
    discount: float = 0.0
    ordered_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    due: date = date(2026, 1, 2)
    opens: time = time(8, 30)
    ticket: UUID = NO_TICKET
    scan: bytes = b"\x00\xff"
    tables: dict[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    kind: Literal["here", "away"] = "here"
    follow_up: Order | None = None


@dataclass
class Receipt:
    """The first version of a receipt."""

    id: int
    gratuity: int
    waiter: str = "Ada"


@dataclass
class NewReceipt:
    """The next version of a receipt."""

    id: int
    tip: int = field(metadata={"doc": "in cents", "aliases": ["gratuity"]})
    currency: str = "EUR"


@dataclass
class NarrowReceipt:
    """A reader's view of a receipt."""

    id: int
    table: str = "none"


NewReceipt.__name__ = NarrowReceipt.__name__ = "Receipt"


@dataclass
class Cash:
    coins: int


@dataclass
class Card:
    number: str


@dataclass
class Payment:
    """A union of records and others."""

    by: Cash | Card | int | None


class Guest(BaseModel):
    """A guest, as pydantic has it."""

    number: int = Field(ge=0, alias="guestNumber", description="at the door")
    name: str = Field(max_length=40)
    owes: Decimal = Field(max_digits=10, decimal_places=2)
    favourite: Size | None = None
    seen_at: datetime | None = None
    friends: list[Guest] = []
    visits: dict[str, int] = {}


def _protobuf_messages() -> tuple[Any, Any, Any]:
    """Address in a file of its own, and Parcel, Parcel.Label behind another message, in one that imports it."""
    address = FileDescriptorProto(name="shop/address.proto", package="shop", syntax="proto3")
    message = address.message_type.add(name="Address")
    message.field.add(name="street", number=1, type=9, label=1, json_name="street")
    parcel = FileDescriptorProto(
        name="shop/parcel.proto", package="shop", syntax="proto3", dependency=[address.name]
    )
    parcel.message_type.add(name="Unused")
    message = parcel.message_type.add(name="Parcel")
    message.field.add(name="number", number=1, type=3, label=1, json_name="number")
    message.field.add(
        name="to", number=2, type=11, type_name=".shop.Address", label=1, json_name="to"
    )
    label = message.nested_type.add(name="Label")
    label.field.add(name="text", number=1, type=9, label=1, json_name="text")
    pool = DescriptorPool()
    pool.Add(address)
    pool.Add(parcel)
    return tuple(  # type: ignore[return-value]
        GetMessageClass(pool.FindMessageTypeByName(name))
        for name in ("shop.Address", "shop.Parcel", "shop.Parcel.Label")
    )


Address, Parcel, Label = _protobuf_messages()
