"""The Flower app of this example."""
