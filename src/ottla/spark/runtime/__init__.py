"""What Spark needs to run: a session with good settings, Java, Python workers, sockets."""
