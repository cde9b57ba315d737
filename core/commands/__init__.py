"""What each command of the command line does; `core.cli` reads the arguments and calls these."""
