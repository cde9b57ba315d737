"""Icons, example runs and sample files made by this project."""
