"""Opening a partition's folder: its listing, the load after a clean stop, check and repair after an unclean one."""
