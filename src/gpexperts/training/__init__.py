"""Training: the objective, its optimiser, and the schedule that finds the shared hyperparameters."""
