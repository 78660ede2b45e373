"""The pages, a module each: what a page shows, from one state of the views."""
