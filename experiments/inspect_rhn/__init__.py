"""Analysis of a trained recurrent highway network: Jacobians, gates, layers, initialization, dropout in evaluation."""
