"""One process per device: pulls items, tokenises them, forms batches, has its engine run them, answers."""
