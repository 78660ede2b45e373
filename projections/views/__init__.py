"""The views: rows, tables, and the folds that keep them, one module a noun."""
