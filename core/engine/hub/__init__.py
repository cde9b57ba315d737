"""What asks the Hugging Face Hub, keeps its token and looks after its cache: with huggingface_hub, without torch."""
