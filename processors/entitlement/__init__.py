"""The pool tree, queues and sharing: who may go on, who must leave."""
