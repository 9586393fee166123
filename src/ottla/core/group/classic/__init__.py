"""Groups of the classic protocol: members join and sync, and their leader assigns.

Here: the group with its state, and what its members do. Not here: committed offsets and the records of both protocols
(`core/group`), classic members in a group of the new protocol (`core/group/consumer`).
"""
