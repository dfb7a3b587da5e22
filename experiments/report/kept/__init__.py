"""Kept results: small files of finished runs, read with strict checks, collected, and verified."""
