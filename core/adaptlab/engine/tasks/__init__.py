"""One file a task: how its answers follow from its inputs."""
