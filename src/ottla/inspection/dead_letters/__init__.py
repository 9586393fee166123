"""Dead letters of a cluster: reading them, and sending them back or dropping them.

`letters` reads a dead-letter topic and knows which of its letters are done. `changes` replays and drops. What letters
are made of, and the names of their topics, is in `ottla.app.letters`.
"""
