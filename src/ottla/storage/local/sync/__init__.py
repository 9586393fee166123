"""Syncing appended bytes to the disk: group commit, background syncs, and the threads that wait for the disk."""
