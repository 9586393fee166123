"""What shells ask for when Tab is pressed: the scripts, and the words that could come next."""
