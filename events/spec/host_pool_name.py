"""The name of a host pool as users write it."""

from typing import Annotated

from pydantic import StringConstraints

from events.host_pools import NAME

HostPoolName = Annotated[str, StringConstraints(pattern=rf"^{NAME.pattern}$")]
