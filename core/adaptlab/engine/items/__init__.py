"""Items of tasks as tensors: generated, texts and images."""
