"""Writing topics: tasks encode rows, the driver commits each micro-batch in one transaction, and a marker tells how far
it came.
"""
