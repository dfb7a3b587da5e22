"""How fast recurrent networks train, side by side with the obvious ways to train them."""
