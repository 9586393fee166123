"""Commands about apps: run one; list, show, replay and drop its dead letters."""
