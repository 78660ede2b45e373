"""Brings the images of runs to this host, so that they start once these are here; the agent waits for none."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from events.process.images import Image, ImageFault
from hostagent.images import Images
from hostagent.messages import REASON_CHARS_MAX, ImageState, WantedImage
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs

RETRY_S = 1.0
"""So often a start is tried again that a full disk doesn't take."""
COLLECT_S = 3600.0
"""So often images that nobody uses are looked for."""


class ImagePulls:
    """The runs of one agent that wait for their image. `images`: None where no containers are run; `changed`: called
    when there is something to report; `say`: told of what was removed.
    """

    def __init__(
        self, runs: Runs, images: Images | None, changed: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self._runs = runs
        self._images = images
        self._changed = changed
        self._say = say
        self.untold: list[ImageState] = []
        """The states of images that were to be fetched, until the cell knows them."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start_all(self, launches: Mapping[RunKey, Launch]) -> None:
        """Starts runs that are not known here, those whose image is here at once. Raises `OSError` as `Runs.start`."""
        missing = {key: image for key, launch in launches.items() if (image := self._missing(launch)) is not None}
        for key, image in missing.items():
            self._runs.expect(key, f"its host pulls {image.name}")
            self._begin(self._start_later(key, launches[key], image))
        self._runs.start_all({key: launch for key, launch in launches.items() if key not in missing})

    def fetch(self, request: WantedImage) -> None:
        """Brings an image here for runs that may come; `untold` says what has come of it."""
        self._begin(self._fetch(request))

    def told(self, states: Sequence[ImageState]) -> None:
        """The cell knows these."""
        self.untold = [state for state in self.untold if state not in states]

    def held(self) -> list[str] | None:
        """The images that are here, by their first digits; None: no containers are run."""
        return None if self._images is None else self._images.held()

    async def collect(self) -> None:
        """Removes images that nobody uses, from time to time, until it is cancelled."""
        while self._images is not None:
            await asyncio.sleep(COLLECT_S)
            if removed := await self._images.collect():
                self._changed()
                self._say(f"removed {len(removed)} images that no run uses: {', '.join(removed)}")

    async def __aenter__(self) -> "ImagePulls":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends all pulls: the next agent begins them again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, pulling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(pulling)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _missing(self, launch: Launch) -> Image | None:
        """The image of a run that isn't here yet; None: there is none, or what it lacks is told when it starts."""
        if launch.isolation is None or not launch.contained or self._images is None:
            return None
        image = Image(launch.isolation.image, launch.isolation.image_digest)
        with suppress(ImageFault):
            return image if self._images.root(image) is None else None
        return None

    async def _start_later(self, key: RunKey, launch: Launch, image: Image) -> None:
        assert self._images is not None
        fault, lasting = "", False
        try:
            await self._images.pull(image)
        except Exception as error:  # whatever a registry sends, the run is told of it
            lasting = isinstance(error, ImageFault) and error.lasting
            fault = f"its image can't be had: {error}"
        while self._runs.expected(key):  # else it was told to stop meanwhile
            try:
                if fault:
                    self._runs.refuse(key, fault, lasting)
                else:
                    self._runs.start(key, launch)
            except OSError:
                self._runs.expect(key, "the disk of its host is full")
                await asyncio.sleep(RETRY_S)
        self._changed()

    async def _fetch(self, request: WantedImage) -> None:
        fault = "no containers are run here" if self._images is None else ""
        try:
            if self._images is not None:
                await self._images.pull(Image(request.name, request.digest))
        except Exception as error:  # whatever a registry sends, the cell is told of it
            fault = f"its image can't be had: {error}"
        self.untold.append(ImageState(request.job_id, request.digest, fault[:REASON_CHARS_MAX]))
        self._changed()
