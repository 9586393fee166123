"""What is checked and repaired before a folder is trusted, and what is said and kept of damage."""
