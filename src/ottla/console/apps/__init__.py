"""Apps by their retry and dead-letter topics: which there are, what waits in them, and moving dead letters.

`letter_topics` finds them by their names in a snapshot. `letter_counts` reads what their records tell, `letter_pages`
lists dead letters with the newest first, `letter_changes` replays and drops. All of these read with the connection of
the user who asks, so the cluster decides who may read records. Headers and their meaning are in `ottla.app.letters`.
"""
