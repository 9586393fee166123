"""Commands about consumer groups: selection, lag, members, and reset of offsets."""
