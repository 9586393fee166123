"""What the console knows of groups beyond the snapshot: who stands still, lags in records, and rebalances over time.

In here: the timeline that is made from records of `__consumer_offsets`, and what keeps it; plans of changes to offsets.
Which offset a reset makes of another is in `ottla.inspection.offset_reset`, which the command line needs too.
"""
