"""The hash of a trial, for other interpreters too: needs nothing but what Paceline runs on."""

from hashlib import blake2b

from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_scenario import draw_scenario

ACTS = 40


def digest(seed: int) -> str:
    """A hash over all records of a trial: topic, offset, time, key and value."""
    trial = Trial(draw_scenario(seed, ACTS), Faults(seed))
    trial.run()
    hasher = blake2b(digest_size=32)
    for name in sorted(trial.log._topics):
        for record in trial.log.scan(name, 0):
            hasher.update(repr(record).encode())
    return hasher.hexdigest()
