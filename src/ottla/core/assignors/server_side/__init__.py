"""The assignors that run in the group coordinator (KIP-848): Kafka's `uniform` and `range`.

Here belongs what computes a group's target assignment from its members' subscriptions and their last target
assignment. The assignors that run in clients of the classic protocol are in the package above; who computes a target
when, and how members get from their assignment to their target, is `ottla.core.group`.

Racks play no part: Kafka's assignors do not look at them either (up to 4.3.1; only its classic ones do, KIP-881).
"""
