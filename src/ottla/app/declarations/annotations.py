"""What users write in signatures: `Key[str]`, `Topic`, `Annotated[str, Header("trace")]`, `To("invoices")`.

Type checkers see the plain type: `Key[str]` is a `str`. The short forms `Header["trace", str]` and
`To["invoices", Invoice]` mean the same at run time; type checkers take the text in them for the name of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from ottla.app.declarations.argument_checks import is_text
from ottla.client.model import ConsumerRecord as Record  # noqa: F401 - one of the annotations
from ottla.client.model import Headers as RecordHeaders
from ottla.client.model import HeadersToSend
from ottla.errors import ConfigError

T = TypeVar("T")


class RecordPart(Enum):
    """A part of a record that a parameter can ask for; the value is the parameter's name that stands for it."""

    RECORD = "record"
    VALUE = "value"
    KEY = "key"
    HEADERS = "headers"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


Key: TypeAlias = Annotated[T, RecordPart.KEY]
"""The key of the record, converted: `key: Key[str]`."""
Value: TypeAlias = Annotated[T, RecordPart.VALUE]
"""The value of the record, for a parameter that is not the first: `order: Value[Order]`."""
Headers: TypeAlias = Annotated[RecordHeaders, RecordPart.HEADERS]
"""All headers, as pairs of name and bytes."""
Topic: TypeAlias = Annotated[str, RecordPart.TOPIC]
"""The topic of the record."""
Partition: TypeAlias = Annotated[int, RecordPart.PARTITION]
"""The partition of the record."""
Offset: TypeAlias = Annotated[int, RecordPart.OFFSET]
"""The offset of the record."""
Timestamp: TypeAlias = Annotated[int, RecordPart.TIMESTAMP]
"""The time of the record in milliseconds since 1970."""


@dataclass(frozen=True)
class Header:
    """One header of the record, converted: `trace: Annotated[str, Header("trace")]`, or `Header["trace", str]`."""

    name: str

    def __post_init__(self) -> None:
        if not is_text(self.name):
            raise ConfigError(f'{self.name!r} is no name of a header: write Header("trace")')

    def __class_getitem__(cls, parts: Any) -> Any:
        name, wanted = parts if isinstance(parts, tuple) and len(parts) == 2 else (parts, str)
        return Annotated[wanted, cls(name)]


class Missing(Enum):
    """The value of `To("invoices")`, which only says where results go."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


@dataclass(frozen=True, init=False)
class To:
    """Where a result goes, and a result that says so itself.

    `-> Annotated[Invoice, To("invoices")]` sends what the handler returns; `return To("invoices", invoice, key="t4")`
    is a record with its own key, headers or partition. In an annotation, `key` may be a function of the value.
    """

    topic: str
    value: Any
    key: Any
    partition: int | None
    headers: HeadersToSend
    timestamp_ms: int | None

    def __init__(
        self,
        topic: str,
        value: Any = MISSING,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: HeadersToSend = None,
        timestamp_ms: int | None = None,
    ) -> None:
        if not is_text(topic):
            raise ConfigError(f'{topic!r} is no name of a topic: write To("invoices", value)')
        self.__dict__.update(
            topic=topic,
            value=value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )

    def __class_getitem__(cls, parts: Any) -> Any:
        if not isinstance(parts, tuple) or len(parts) != 2:
            raise ConfigError(f'To[{parts!r}]: write To["invoices", Invoice], a topic and a type')
        topic, wanted = parts
        return Annotated[wanted, cls(topic)]


class Arrow:
    """`batch=Arrow` gives the handler a `pyarrow.Table` of the batch."""


@dataclass(frozen=True)
class Depends:
    """A parameter that a function provides: `db: Annotated[Database, Depends(get_db)]`, or `db=Depends(get_db)`.

    The function may be async, may ask for parts of the record and for other dependencies, and may `yield` its value
    to clean up after the handler. It is called once for each call of the handler, unless `use_cache` is False.
    """

    function: Callable[..., Any]
    use_cache: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"Depends({self.function!r}): give the function that makes the value")
