"""The brokers of a cluster: what a change of their configs does."""
