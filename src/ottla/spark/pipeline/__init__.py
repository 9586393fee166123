"""`Pipeline`: a query with its formats, dead letters and supervisor, and what is checked before Spark starts."""
