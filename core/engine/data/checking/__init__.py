"""What may be wrong with rows of texts and their answers: found in one pass, in memory that hardly grows with them."""
