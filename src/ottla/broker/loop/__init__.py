"""The event loop as something that all clients share: slices of its time, how long it was held, and a clock that leaves
out the pauses of the process.
"""
