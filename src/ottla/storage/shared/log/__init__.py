"""A claimed partition: its log, the runs of which it is made, its snapshots, and compacted segments."""
