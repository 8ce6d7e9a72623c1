"""Studies on a lab's own board: MLflow, Trackio or TensorBoard."""
