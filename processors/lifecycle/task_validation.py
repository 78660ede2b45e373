"""Whether what a job says of its tasks makes sense: of the job, and of each of its overrides merged into it."""

from collections.abc import Iterator

from events.bounds import (
    AFFINITIES_MAX,
    AMOUNT_MAX,
    CHECK_EVERY_MS_MIN,
    CHECKS_MAX,
    CONTAINER_USER,
    DEVICE,
    DEVICES_MAX,
    EXIT_CODE_MAX,
    GANG_PORTS_MAX,
    IMAGE,
    INSTANCES_MAX,
    ISOLATIONS,
    LABELS_MAX,
    MS_MAX,
    NETWORKS,
    OPEN_FILES_MAX,
    OUTPUT_KIB_MAX,
    OUTPUT_KIB_MIN,
    PORT_MAX,
    PORTS_MAX,
    PROCESSES_MAX,
    STOP_SIGNALS,
    STRING_BYTES_MAX,
    STRINGS_MAX,
    TARGETS_MAX,
    URL_PATH,
    WORD_MAX,
)
from events.conditions import WEIGHTS_MAX, conditions_fault
from events.devices import ALTERNATIVES_MAX, amounts_problem, rules_problem
from events.port_names import sharing
from events.resources import REVOCABLE, amounts_fault
from events.secret_names import secrets_fault
from events.strategies import STRATEGIES
from events.taints import tolerations_fault
from events.volume_names import volumes_fault
from processors.lifecycle.rows import SubmittedRow
from processors.state.record_rows import RulesRow


def task_problems(job: SubmittedRow, host_lost_after_ms: int) -> Iterator[str]:
    """All that is wrong with the tasks, a sentence each."""
    for name in ("stop_grace_ms", "stop_after_ms"):
        if not 0 <= getattr(job, name) <= MS_MAX:
            yield f"{name} is {getattr(job, name)}, it must be 0 to {MS_MAX}"
    if job.stop_signal not in STOP_SIGNALS:
        yield f"stop_signal is {job.stop_signal[:40]!r}, it must be one of {', '.join(STOP_SIGNALS)}"
    if not 0 <= job.open_files <= OPEN_FILES_MAX:
        yield f"open_files is {job.open_files}, it must be 0 to {OPEN_FILES_MAX}"
    if fault := amounts_fault(job.resources) or " ".join(amounts_problem(job.resources) or ()):
        yield f"resources: {fault}"
    if not any(amount for name, amount in job.resources.items() if name not in ("memory", "disk")):
        yield "resources name nothing but memory and disk, a task needs some cpu or another resource"
    if REVOCABLE in job.resources:
        yield f"resources name {REVOCABLE}: a job with revocable true asks for cpu, and has it of the slack"
    if job.revocable and not job.resources.get("cpu"):
        yield "revocable is for tasks that ask for some cpu: only CPU is lent"
    if len(job.ports) > PORTS_MAX or len(set(job.ports)) != len(job.ports):
        yield f"ports must be at most {PORTS_MAX} different names"
    if not all(1 <= len(name) <= WORD_MAX for name in job.ports):
        yield f"names of ports must have 1 to {WORD_MAX} characters"
    if shared := sharing(job.ports):
        yield f"names of ports must differ in their letters and digits: {shared}"
    numbers = [job.port_numbers[name] for name in job.ports if name in job.port_numbers]
    if not all(1 <= number <= PORT_MAX for number in numbers) or len(set(numbers)) != len(numbers):
        yield f"port_numbers must be different numbers, 1 to {PORT_MAX}"
    if fault := volumes_fault(job.volumes, job.kind):
        yield f"volumes {fault}"
    if fault := secrets_fault(job.secrets):
        yield f"secrets {fault}: submit over HTTP, which fixes the newest, or say the version"
    if job.gang_min * len(job.ports) > GANG_PORTS_MAX:
        ports = job.gang_min * len(job.ports)
        yield f"the gang needs {ports} ports, at most {GANG_PORTS_MAX} are placed at once"
    if job.strategy and job.strategy not in STRATEGIES:
        yield f"strategy is {job.strategy[:40]!r}, it must be one of {', '.join(STRATEGIES)}"
    checks = (
        _isolation(job),
        _program(job),
        _simulated(job),
        _health(job),
        conditions_fault(job.constraints),
        _rules(job),
        _labels(job),
        _silence(job, host_lost_after_ms),
    )
    yield from filter(None, checks)


def words_fault(job: SubmittedRow, host_lost_after_ms: int) -> str:
    """The first problem of what tasks have of their own, also in view of the settings of the cell; empty: none."""
    return _program(job) or _labels(job) or _silence(job, host_lost_after_ms)


def has_image(job: SubmittedRow) -> bool:
    """Whether its runs are containers."""
    return job.isolation is not None and bool(job.isolation.image)


def _isolation(job: SubmittedRow) -> str:
    """The first fault of how its runs are kept apart and limited; empty: there is none."""
    apart = job.isolation
    if apart is None:
        return ""
    if not 0 <= apart.processes <= PROCESSES_MAX:
        return f"processes is {apart.processes}, it must be 0 to {PROCESSES_MAX}"
    if not 0 <= apart.cpu_limit <= AMOUNT_MAX or 0 < apart.cpu_limit < job.resources.get("cpu", 0):
        return f"cpu_limit is {apart.cpu_limit}, it must be 0, or at least the cpu that a task asks for"
    for name, kib in (("output_head", apart.output_head), ("output_tail", apart.output_tail)):
        if kib and not OUTPUT_KIB_MIN <= kib <= OUTPUT_KIB_MAX:
            return f"{name} is {kib} KiB, it must be 0, or {OUTPUT_KIB_MIN} to {OUTPUT_KIB_MAX}"
    if apart.level not in ISOLATIONS:
        return f"isolation is {apart.level[:40]!r}, it must be one of {', '.join(ISOLATIONS)}"
    if apart.network not in NETWORKS:
        return f"network is {apart.network[:40]!r}, it must be one of {', '.join(NETWORKS)}"
    if not apart.image:
        own = apart.image_digest or apart.network != "host" or apart.writable_root or apart.level == "container"
        if not (own or apart.user or apart.devices):
            return ""
        names = "isolation container, network, writable_root, user, device_files and image_digest"
        return f"{names} are for jobs with an image"
    if not IMAGE.fullmatch(apart.image):
        return f"image is {apart.image[:80]!r}, it must be a name such as registry.example/app:1.2"
    if apart.user and not CONTAINER_USER.fullmatch(apart.user):
        return f"user is {apart.user[:80]!r}, it must be USER or USER:GROUP, names or numbers"
    if len(apart.devices) > DEVICES_MAX or not all(map(DEVICE.fullmatch, apart.devices)):
        return f"device_files must be at most {DEVICES_MAX} paths such as /dev/fuse"
    if apart.level != "container":
        return f"isolation is {apart.level}, a job with an image runs in a container"
    return ""


def _program(job: SubmittedRow) -> str:
    if job.simulated is None and not has_image(job) and not (job.command and job.command[0]):
        return "command must name a program"
    for what, strings in (("command", job.command), ("env", job.env)):
        if len(strings) > STRINGS_MAX:
            return f"{what} has {len(strings)} items, at most {STRINGS_MAX} are allowed"
    for text in (*job.command, *(f"{name}={value}" for name, value in job.env.items())):
        size = len(text.encode())
        if size > STRING_BYTES_MAX:
            return f"{text[:40]!r} in command or env takes {size} bytes, at most {STRING_BYTES_MAX} are allowed"
    if not all(job.env) or any("=" in name for name in job.env):
        return "names in env must not be empty nor hold ="
    if any("\0" in text for text in (*job.command, *job.env, *job.env.values())):
        return "command and env must not hold the character 0"
    return ""


def _simulated(job: SubmittedRow) -> str:
    sim = job.simulated
    if sim is None:
        return ""
    for name, times in (("duration_ms", (sim.duration_ms, *sim.durations_ms)), ("ready_ms", (sim.ready_ms,))):
        wrong = next((each for each in times if not 0 <= each <= MS_MAX), None)
        if wrong is not None:
            return f"simulated {name} is {wrong}, it must be 0 to {MS_MAX}"
    if not 0 <= sim.exit_code <= EXIT_CODE_MAX:
        return f"simulated exit_code is {sim.exit_code}, it must be 0 to {EXIT_CODE_MAX}"
    if sim.unhealthy_ms is not None and not 0 <= sim.unhealthy_ms <= MS_MAX:
        return f"simulated unhealthy_ms is {sim.unhealthy_ms}, it must be 0 to {MS_MAX}"
    for name in ("fail_runs", "fail_run", "unhealthy_runs"):
        number = getattr(sim, name)
        if number < 0:
            return f"simulated {name} is {number}, it must not be negative"
    return ""


def _health(job: SubmittedRow) -> str:
    check, sim = job.health, job.simulated
    if check is None:
        unplayed = sim is not None and sim.unhealthy_ms is not None
        return "simulated unhealthy_ms plays a health check, and the job has none" if unplayed else ""
    if check.kind not in ("command", "http", "tcp"):
        return f"health kind is {check.kind[:40]!r}, it must be command, http or tcp"
    if check.kind == "command" and not (check.command and check.command[0]):
        return "health command must name a program"
    if any("\0" in text for text in check.command):
        return "health command must not hold the character 0"
    if check.kind != "command" and check.port not in job.ports:
        return f"health port is {check.port[:80]!r}, it must be a port of the job"
    if check.kind == "http" and not URL_PATH.fullmatch(check.path):
        return "health path must begin with / and hold printable ASCII without spaces"
    for name, least in (("delay_ms", 0), ("interval_ms", CHECK_EVERY_MS_MIN), ("timeout_ms", 1)):
        if not least <= getattr(check, name) <= MS_MAX:
            return f"health {name} is {getattr(check, name)}, it must be {least} to {MS_MAX}"
    for name in ("failures", "successes"):
        if not 1 <= getattr(check, name) <= CHECKS_MAX:
            return f"health {name} is {getattr(check, name)}, it must be 1 to {CHECKS_MAX}"
    return ""


def _rules(job: SubmittedRow) -> str:
    if job.rules is None and not job.constraints:
        return ""
    rules = job.rules or RulesRow()
    if fault := tolerations_fault((*rules.tolerations, *(each.taint for each in rules.stays))):
        return fault
    if not all(0 < each.for_ms <= MS_MAX for each in rules.stays):
        return f"a toleration has a time of 1 to {MS_MAX} ms"
    asks = rules.devices, rules.devices_within, rules.cores
    of_daemon = RulesRow(rules.tolerations, devices=asks[0], devices_within=asks[1], cores=asks[2])
    if job.kind == "daemon" and rules != of_daemon:
        return "rules beside tolerations and devices are not for daemons: one task runs on every host that matches"
    if len(rules.alternatives) > ALTERNATIVES_MAX or any(amounts_fault(each.amounts()) for each in rules.alternatives):
        return f"a task has at most {ALTERNATIVES_MAX} alternatives, and each asks amounts of resources"
    if rules.alternatives and (job.revocable or rules.alternatives[0].amounts() != job.resources):
        return "the first alternative asks what the job does, and revocable tasks have none"
    if not all(0 <= each <= INSTANCES_MAX for each in (rules.host_limit, rules.skew, rules.most)):
        return f"host_limit, skew and the most of a spread must be 0 to {INSTANCES_MAX}"
    if len(rules.affinity) > AFFINITIES_MAX or len(rules.targets) > TARGETS_MAX:
        return f"a job has at most {AFFINITIES_MAX} affinities and {TARGETS_MAX} targets"
    words = [word for term in rules.affinity for word in (term.label, term.over)]
    more = [*(term.value for term in rules.affinity), *(each.value for each in rules.targets)]
    if not all(words) or any(
        len(word) > WORD_MAX for word in (*words, *more, rules.spread_over, rules.within, rules.near)
    ):
        return f"labels and attributes must have 1 to {WORD_MAX} characters"
    weights = [*(each.weight for each in job.constraints), *(each.weight for each in rules.affinity)]
    if min(weights, default=0) < 0 or sum(weights) > WEIGHTS_MAX:
        return f"the weights of constraints and affinities are {sum(weights)} in sum, 0 to {WEIGHTS_MAX} are allowed"
    percents = [each.percent for each in rules.targets]
    if min(percents, default=0) < 0 or sum(percents) > 100:
        return f"targets are {sum(percents)} percent in all, 0 to 100 are allowed"
    if ((rules.skew or rules.targets or rules.most) and not rules.spread_over) or (rules.skew and rules.targets):
        return "skew or targets, one of them, are for a spread over an attribute"
    return _nearness(job, rules) or " ".join(rules_problem(rules, job.resources, job.revocable) or ())


def _nearness(job: SubmittedRow, rules: RulesRow) -> str:
    if (rules.within or rules.near or rules.segments) and job.gang_min < 2:
        return "within, near and segments are for a gang"
    if rules.segments and (rules.segments < 2 or job.gang_min % rules.segments or not rules.nearness):
        return f"segments is {rules.segments}: 2 or more that divide the gang of {job.gang_min}, with near or within"
    return ""


def _labels(job: SubmittedRow) -> str:
    if len(job.labels) > LABELS_MAX:
        return f"the job has {len(job.labels)} labels, at most {LABELS_MAX} are allowed"
    for name, value in job.labels.items():
        if not 1 <= len(name) <= WORD_MAX or len(value) > WORD_MAX:
            return f"label {name[:80]!r}: name and value have at most {WORD_MAX} characters"
    return ""


def _silence(job: SubmittedRow, host_lost_after_ms: int) -> str:
    if job.on_silence == "keep" and job.kind == "stateful":
        return "on_silence must be stop_after for a stateful job, so that a task never runs twice"
    if job.on_silence == "keep":
        return f"stop_after_ms is {job.stop_after_ms}, it is only for stop_after" if job.stop_after_ms else ""
    if job.on_silence != "stop_after":
        return f"on_silence is {job.on_silence[:40]!r}, it must be keep or stop_after"
    if not 0 < job.stop_after_ms + job.stop_grace_ms < host_lost_after_ms:
        return (
            f"stop_after_ms {job.stop_after_ms} and stop_grace_ms {job.stop_grace_ms} together must end before the "
            f"cell declares a silent host lost, after {host_lost_after_ms} ms"
        )
    return ""
