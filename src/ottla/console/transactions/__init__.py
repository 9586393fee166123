"""What the transactions view shows beyond the snapshot: what open ones hold up, hanging ones, ended ones, aborting.

`log` reads `__transaction_state`: its tail, from which ended transactions are counted, and the history of one id.
"""
