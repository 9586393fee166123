"""What the transactions view shows beyond the snapshot: what open ones hold up, hanging ones, ended ones, aborting.

`journal` follows `__transaction_state` and counts what has ended; `history` reads what it has of one id.
"""
