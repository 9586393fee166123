"""A consumer as a member of a group, or of none: joining, heartbeats, commits, and the coordinator."""
