"""The paper: its data sets, its experiments, and a demonstration."""
