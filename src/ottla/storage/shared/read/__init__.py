"""Reading: the newest batches of the process in memory (`tail_cache.py`), and what has to be fetched (`cold_reads.py`)."""
