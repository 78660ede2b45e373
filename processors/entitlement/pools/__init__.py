"""The pool tree: facts about pools are answered by its rules."""
