"""From text to packed batches."""
