"""Groups of the new consumer protocol (KIP-848): the coordinator assigns, members reconcile.

Here: the group, its events and records, targets, reconciliation, members of both protocols in such a group, and the
migration from and to classic groups. Not here: the classic protocol itself (`core/group/classic`),
committed offsets (`core/group`), the assignors (`core/assignors/server_side`).
"""
