"""Commands that move records between topics and files or terminals: `produce`, `consume`, `deletion`.

The formats of records as text and as lines of input are here, for all commands.
"""
