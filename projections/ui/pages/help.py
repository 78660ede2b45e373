"""The list of keys, for browsers without scripts."""

from projections.ui.scene import Page

PAGES = (Page("/help", "help.html", lambda _: {}, ""),)
