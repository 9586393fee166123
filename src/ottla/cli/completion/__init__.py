"""Shell completion: the scripts for shells, and the candidates that they ask for."""
