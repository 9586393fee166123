"""`app.transaction(session)`: offsets and sends of a handler as part of its database transaction, and the relay.

Belongs here: what goes into the user's database, and how it comes out again. What a record is, and which one a handler
gets, does not: `listening/` runs the handlers that `attach` has wrapped.
"""

from ottla.app.outbox.outbox import Outbox
from ottla.app.outbox.session_transaction import CURRENT_OUTBOX, SessionTransaction
from ottla.app.outbox.statements import Tables

__all__ = ["CURRENT_OUTBOX", "Outbox", "SessionTransaction", "Tables"]
