"""What clients know and decide, without IO: time and randomness are arguments."""
