"""The window. No torch anywhere in here: training happens in the engine process."""
