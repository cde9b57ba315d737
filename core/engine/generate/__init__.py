"""What a trained model answers: predictions, written text, chat."""
