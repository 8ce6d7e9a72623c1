"""One file a task: what it is. How items are made stands in `adaptlab.engine.tasks`."""
