"""The run-time environment of Spark: a session with good settings, Java, Python workers, sockets."""
