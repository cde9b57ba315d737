"""What this computer has and is doing, without torch: memory, processors, graphics cards."""
