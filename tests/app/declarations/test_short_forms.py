"""`To["invoices", Invoice]` and `Header["trace", str]` mean the same as their forms with Annotated."""

# No `from __future__ import annotations`: linters take the text in these forms for a forward reference.

from dataclasses import dataclass

from tests.app.declarations.raw_records import raw_record
from tests.app.declarations.test_compiled_handler import run

from ottla.app import App, Header, To
from ottla.app.delivery.unit import OutgoingRecord


@dataclass
class Invoice:
    table: str


def test_short_forms() -> None:
    app = App("billing")

    @app.listener("orders")
    async def handle(
        value: str,
        trace: Header["trace"],  # type: ignore[name-defined, type-arg]  # noqa: F821
        count: Header["count", int],  # type: ignore[name-defined, type-arg]  # noqa: F821
    ) -> To["invoices", Invoice]:  # type: ignore[name-defined, type-arg]  # noqa: F821
        return Invoice(f"{value} {trace} {count!r}")  # type: ignore[return-value]

    record = raw_record(b"t4", headers=(("trace", b"abc"), ("count", b"41")))
    assert run(handle, record) == [OutgoingRecord("invoices", b'{"table":"t4 abc 41"}')]
