"""What each paper claims, as data."""
