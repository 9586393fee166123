"""Which record is worked on next, which are finished, what may be committed.

State without IO, clock or asyncio: time is an argument.
"""
