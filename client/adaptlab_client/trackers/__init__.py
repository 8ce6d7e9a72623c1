"""A study on a lab's own board: MLflow, or TensorBoard."""
