"""The values of pages."""

from typing import Any

PageValues = dict[str, Any]
"""The values of a page or of a part of one, by the names that its template has for them."""
