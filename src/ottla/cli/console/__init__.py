"""`ottla console`: the console as a process of its own."""
