"""What is in a data set, and what a run would make of it."""
