"""What the producers view shows: the producers that partitions remember, and the last batches of a partition."""
