"""The volumes of a task in the spec of a job."""

from typing import Annotated

from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from events.volume_names import volumes_fault


def _fitting(names: list[str], info: ValidationInfo) -> list[str]:
    if fault := volumes_fault(names, info.data.get("kind", "stateful")):
        raise PydanticCustomError("volumes", "{what}", {"what": fault})
    return names


Volumes = Annotated[list[str], AfterValidator(_fitting)]
