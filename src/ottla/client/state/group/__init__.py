"""A member of a consumer group without IO: its states, heartbeats, committed offsets, the leader's assignment."""
