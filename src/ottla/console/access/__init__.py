"""Who uses the console and what they may do: roles, identities, sessions, logins, and the checks of requests."""
