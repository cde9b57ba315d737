"""From a table of any known shape to conversations, and from conversations to tokens with the trained part marked."""
