"""The admin client, by subject."""
