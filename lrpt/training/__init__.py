"""Training that can be interrupted anywhere and resumed to the same numbers."""
