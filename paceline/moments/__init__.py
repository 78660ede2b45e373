"""The past of cells: moments that a request may name, and the views as they were then."""
