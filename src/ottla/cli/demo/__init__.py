"""The demonstrations of `ottla demo`: processes are killed, then the results are counted."""
