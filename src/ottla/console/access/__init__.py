"""Who uses the console and what they may do: roles, identities, sessions, logins, and the checks of requests.

`visible` alone says which topics, groups and transactions a user sees: `visible = await call.visible()`.
"""
