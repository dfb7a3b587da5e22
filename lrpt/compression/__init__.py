"""Compression of given matrices and trained networks: nearest matrices of every structure, adapters of low rank, 8-bit integers."""
