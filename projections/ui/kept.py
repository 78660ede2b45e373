"""The query of a page, for links that change a part of it."""

from projections.ui.scene import Scene


def kept(scene: Scene, *but: str) -> dict[str, list[str]]:
    """The parameters of a page by name, but those that are named; the moment is kept by `link`."""
    return {name: scene.query.getlist(name) for name in scene.query if name not in ("at", *but)}
