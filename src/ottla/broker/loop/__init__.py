"""The event loop, which all clients share: slices of its time, the times that it was held, and a clock that leaves out
the pauses of the process.
"""
