"""Consumer groups: which ones are meant, how far they are, and where they go on."""
