"""A person's files, read into what the tasks train on; each failure names file, row and column."""

TOKENS = "input_ids"
NO_LABEL = -100
"""The label of a token that is not learned from, as torch's cross entropy and transformers have it."""
PAIR = PROMPT, CHOSEN, REJECTED = "prompt_ids", "chosen_ids", "rejected_ids"
