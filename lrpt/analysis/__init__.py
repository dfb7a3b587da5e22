"""What trained networks do, and figures of it."""
