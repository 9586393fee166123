"""One module for each served API: it translates between messages and the node, and decides nothing itself."""
