"""On which nodes units go. They use the columns and the room."""
