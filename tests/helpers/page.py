"""What a browser would make of a page that stands alone: headings, plots, and what would be loaded."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Notes headings, plots and whatever would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []
        self.charts: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag, attrs):
        given_ = dict(attrs)
        self.open += [tag] if tag not in ("meta", "link") else []
        self.foreign += [tag] if tag in ("img", "iframe", "object") else []
        loaded = [given_[name] for name in ("src", "href") if name in given_]
        self.foreign += [each for each in loaded if not each.startswith(("#", "data:"))]
        self.foreign += [name for name in given_ if name.startswith("on")]
        if given_.get("role") == "img":
            self.charts.append(given_["aria-label"])

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)
