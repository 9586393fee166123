"""An app that mails an invoice for each order; some mailboxes are full, so that there are dead letters."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tests.console.shop.goods import is_reachable
from tests.console.shop.names import MAILER, ORDERS

from ottla.app import App, Retry


class MailboxFullError(Exception):
    """The customer's mailbox takes no more."""

    # Dead letters have the names of errors with their modules, and pictures show them.
    __module__ = "shop.mailer"


class UnknownAddressError(Exception):
    """The customer gave an address that does not exist."""

    __module__ = "shop.mailer"


@dataclass
class OrderToMail:
    """What the mailer needs of an order."""

    order: str
    customer: str
    total: str


def mailer(servers: str) -> App:
    """The app, not started."""
    # Every failed attempt is logged.
    logging.getLogger("ottla.app").setLevel(logging.CRITICAL)
    app = App(MAILER, bootstrap_servers=servers, client_id="mailer", auto_offset_reset="earliest")

    @app.listener(ORDERS, group=MAILER, retry=Retry("1s", "2s"), dead_letters=True)
    async def mail(order: OrderToMail) -> None:
        if is_reachable(order.customer):
            return
        if order.customer.endswith("0"):
            raise MailboxFullError(f"452 4.2.2 the mailbox of {order.customer} is full")
        raise UnknownAddressError(f"550 5.1.1 {order.customer} has no such address")

    return app
