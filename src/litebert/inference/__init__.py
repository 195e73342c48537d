"""Using a trained model: task-shaped calls on text."""
