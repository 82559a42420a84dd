"""Small and large jobs: what their class is learned from, and how it is told when they are submitted."""
