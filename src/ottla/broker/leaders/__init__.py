"""Who leads the partitions, by the way in which nodes share their data.

`leaders.py` is what a cluster asks. Nodes of one process share one store (`one_process.py`); workers have a store each
(`own_stores.py`). The rules about nodes and orders are in `ottla.core.leadership`.
"""
