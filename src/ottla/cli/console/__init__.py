"""The console as a process: of its own (`ottla console`), or of a broker (`ottla serve --console`)."""
