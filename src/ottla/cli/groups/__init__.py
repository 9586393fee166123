"""Commands about groups: selection, lag, members, and reset of offsets."""
