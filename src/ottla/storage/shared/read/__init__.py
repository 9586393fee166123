"""Reading: the newest batches in memory (`tail_cache.py`), and what has to be fetched (`cold_reads.py`)."""
