"""Writing: parts of flushes in two lanes, uploads, and commits in the order of appends.

A part has the batches of one partition within a flush. The inline lane sends small flushes to the sequencer with their
data; the objects lane puts larger ones into an object first. Data comes before metadata, always.
"""
