"""Benchmark of training times of recurrent networks, beside common ways to train them."""
