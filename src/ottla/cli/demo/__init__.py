"""The demonstrations: what is killed, and how what is left is counted."""
