"""What the engine's jobs are asked and answer: requests and answers, nothing else."""
