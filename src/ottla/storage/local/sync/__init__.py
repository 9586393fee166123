"""How appended bytes get to the disk: group commit, background syncs, and the threads that wait for the disk."""
