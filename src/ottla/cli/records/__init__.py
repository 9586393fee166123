"""Records between files or terminals and topics: `produce`, `consume`, `deletion`, and the forms of records.

How a record looks as text, as JSON or as a line of input is decided here, for every command that shows one.
"""
