"""Writes the page of a job's fields from the JSON Schema of its spec: `python -m tools.jobs_page > docs/jobs.md`."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from events.spec.job import JobSpec, json_schema
from tools.job_examples import ALONE
from tools.job_examples import EXAMPLES as FIELD_EXAMPLES

KINDS: tuple[str, ...] = get_args(JobSpec.model_fields["kind"].annotation)
EXAMPLES = Path("examples/kinds")
HEAD = """\
# Jobs

A job is written in YAML or JSON and submitted with `paceline job submit FILE`, `POST /v1/jobs`, or as a `JobSubmitted`
record. This page is made from the schema of the spec by `python -m tools.jobs_page > docs/jobs.md`; a test compares.
[task-life.md](task-life.md) has the life of a task, [reasons.md](reasons.md) why it waits.

A file may hold many jobs: YAML documents, or a list in YAML or JSON. They are sent in one request (`POST
/v1/job-batches`, 10,000 jobs at most), and the cell checks all of them before it takes one: where a check refuses one,
none is submitted, and each fault is told by its line. With `--dry-run` nothing is written: the machines of the cell
decide on a copy of their state, and the answer is what would be written, where the jobs would go, or who is refused.

Times have a unit: `500ms`, `10s`, `5m`, `2h`, `1d`. So have sizes: `64MiB`, `2GiB`. Other amounts are numbers (`0.5`)
or thousandths (`500m`).
"""
RUNS = """\
## Plans

`paceline job plan FILE...` tells what the cell would decide about jobs, without submitting them:

```console
$ paceline job plan tiles.yaml
job tiles  PLACED  60 tasks would get a host within 13 s
  not placed now: NO_HOST_FITS  60 tasks find no host with enough free (200 hosts looked at: 200 lack cpu); ...
HOST   TASKS  INSTANCES  AFTER
r6-03      2  0-1         13 s
...
  it would preempt:
JOB   POOL    TASK  RUN  HOST   BY    AFTER
base  /batch   122    1  r6-03  GIVE   10 s
...
```

The answer comes from the machines that decide about submissions, run on a copy of their state ([decision
076](decisions/moments.md#076-plans-are-decided-by-the-machines-on-a-branch-of-the-log)); nothing is written to the
log. The copy has the hosts, runs and queues of this moment. From there on, time is simulated: hosts start and stop
runs at once, and no run ends by itself. The simulation ends when each task of the job has a host, or 30 s after the
preemption delay of its pool; of an update after 30 minutes at the latest.

| `outcome` | |
| --- | --- |
| PLACED | each task would get a host |
| PARTLY_PLACED, WAITS | some tasks, or all, would still wait at the end, for `later_reasons` |
| REFUSED | the cell would refuse the job; `code` and `message` say why |
| REPEATED | the job was submitted before, with this content |
| UPDATED, UPDATE_WAITS, UPDATE_FAILS | the job exists and differs: how its update would end, or be after 30 minutes |

`placed_at_once` tasks have a host as soon as the machines have decided. The others wait first: `reasons` are what `job
explain` would tell right after the submission, `later_reasons` what it would tell at the end of the simulation.
`preempts` lists the runs that orders for the job would name, by which right, and whether their SLA defers that. With
`-o json` the plan has all hosts and victims, the position in the log that it was made at, and `cut_short` where the
machines needed more than 15 s. Exit codes: 0 each task gets a host, 1 a task waits or the update doesn't end well, 2
the job is refused.

Several jobs, from several files or documents of a file, are planned together in the order given: each is decided
before the next is submitted, so a job finds the room that those before it leave. `paceline job submit --dry-run` checks
jobs and plans them together. The page that submits a job has a button that plans all jobs of its text. Over HTTP:
`POST /v1/job-plans` with the body of a submission, or with `{"jobs": [...]}`, which answers `{"plans": [...]}`; a
server of several cells plans each job in the cell of its pool.

The first plan starts a process that reads the stores of the machines; the page that submits jobs and a dry run start it
before it is needed. It ends when nobody has asked for five minutes.
With processes of their own on several machines it reads the snapshots ([snapshots.md](snapshots.md)): keep some, or
the first plan reads the whole log.

## Why a task runs where it runs

```console
$ paceline job placement web --task 3
task 3 of job web, run 1: b-02
  decided   ..., round 12 of placement (paceline.placement:14)
  strategy  pack; 7 of 12 hosts were possible
HOST          TASKS   SCORE     CPU  MEMORY    DISK  FREE
b-02  chosen      1  2.1250  0.5000  0.6250  1.0000  cpu 8, memory 40GiB, disk 97.7GiB
...
```

Placement is replayed up to the decision that placed the run, and looked at as it stood then, with what that decision
had placed before. Before SCORE stands what goes before it, where hosts differ: the tasks of the job on hosts with the
same value of the attribute in `spread`, DEVICES that the task doesn't ask for, UNMET weights of preferences as they
were written, and whether the IMAGE of the job is there (as a weight of 1). SCORE is what a host had free, each
resource as a part of the largest host of the cell; its terms are the columns behind it. A job that is packed
(`strategy: pack`) goes to the host with the lowest score, one that is spread to the host with the fewest of its
tasks, and among those to the highest score. With `balanced` and `load-aware` the lowest score wins: UNEVENNESS is how
unevenly the host would be used, from 0 to 1, LOAD what its runs use in sixteenths (8 where it hasn't told), and ROOM
the sum of what is free. With `adaptive` the lowest wins as well, and all is in cards: LOSS is what the host loses for
the tasks that are expected, ROOM 6/1000 of its free cards and 1/4 of a card for each 1,000 free cores, PLACE up to 0.3,
from the first to the last host with cards of its model. With `fragmentation` LOSS is one less the score of FGD, from 0
to 1 in 101 steps; above 0.5 the task leaves fragments. A host whose room was kept for the task, by an update, a
preemption or a reservation, comes before all others.

The replay begins from the newest snapshot before that round, or from the start of the log, one at a time and for
`views.make_s` seconds at most. Of a round that another `logic` has decided, or before the oldest snapshot and the
log, the candidates can't be derived: the answer says so in `why`, and has what the decision recorded: the
strategy, the score of the host for the first task of those placed together (that of `pack` for the two strategies that
look at cards), and how many hosts were possible. Rounds before 0.4 recorded none of these.

## What a run finds

The environment of a run is `env` of its job, and on top of it

| variable | value |
| --- | --- |
| `PACELINE_JOB`, `PACELINE_TASK`, `PACELINE_RUN` | Id of the job, number of the task, number of the run. |
| `PACELINE_HOST`, `PACELINE_POOL` | Id of the host, path of the pool. |
| `PACELINE_PORT_NAME` | Number of the port `name`. |
| `PACELINE_VOLUME_NAME` | Path of the volume `name`. |
| `PACELINE_SECRET_NAME` | Path of the file with the secret `name`. |
| `PACELINE_RANK`, `PACELINE_SIZE` | In a gang: number of the member, from 0, and how many there are. |
| `PACELINE_MASTER_HOST`, `PACELINE_MASTER_PORT` | In a gang: the host of member 0, and the first of its ports. |
| `PACELINE_ADDRESSES` | In a gang: host and first port of each member, by rank: `h1:31000,h2:31000`. |
| `PACELINE_MEMBERS` | In a gang: path of a JSON file with task, host and all ports of each member. |

Letters of names are upper case in variables, all other characters but digits are `_`. A run works in a folder of its
own, which the agent removes some time after the run. Its standard input is empty.

## Which hosts

`constraints` are conditions on the attributes that hosts have by their agents (`paceline host list`):

```yaml
constraints:
  - {attribute: rack, values: [r1, r2]}                       # one of these
  - {attribute: cores, operator: greater, values: ["16"]}
  - {attribute: kernel, operator: version, values: [">=5.15", "<7"]}
  - any:                                                      # one of them holds
      - {attribute: disk, operator: glob, values: ["nvme-*"]}
      - all:
          - {attribute: disk, values: [ssd]}
          - {attribute: zone, operator: not_in, values: [north]}
  - {attribute: disk, operator: exists, weight: 10}           # preferred, not needed
```

| operator | met by |
| --- | --- |
| `in`, `not_in` | a value that is one of `values`; one that is none of them |
| `exists`, `absent` | hosts that have the attribute; those that haven't |
| `greater`, `less` | a number above or below the one in `values`; a value that is no number meets neither |
| `version` | a version for which all comparisons hold: `>=1.20`, `<2`, `!=1.24`, `1.22` |
| `glob` | a value like one of the patterns: `*` stands for any characters, `?` for one, `[ab]` for one of these |

Versions are compared number by number: `1.2` is `1.2.0`, and `2.0-rc.1` comes before `2.0`. A value that is no version
meets no comparison.

A host without the attribute meets `not_in` and `absent` alone. Where no host has it at all, `submit --dry-run` says
so, and the job waits with `CONSTRAINT_MISMATCH`.

A constraint with a `weight` is a preference: among the hosts that meet all others, those come first whose unmet
weights have the least sum; the sum of all weights of a job is at most 62. Hosts that have the image of a job already
come first as by a preference with the weight 1. Hosts with devices (GPUs, or any resource of the cell beside CPU,
memory and disk) that a task doesn't ask for come last, whatever the preferences say, so that they stay free for those
who do. `spread` evens out the tasks of the job over hosts before it looks at either
([the whole order](placement.md#how-a-host-is-chosen)).

A host with a *taint* takes only new tasks that tolerate it: `tolerations: [dedicated=ml]`, or with the key alone
whatever its value. Hosts have taints by their agents (`--taint KEY=VALUE`) and by operators (`paceline host taint HOST
KEY=VALUE`); what runs there goes on, and tasks that may run on no other host go there still. By
`{taint: KEY, tolerate: 5m}` a job [leaves a host](maintenance.md#taints-by-which-tasks-leave) so long after a taint was
set by which tasks leave. A host with the attribute
`exclusive` takes only tasks that name its value by a constraint (`{attribute: exclusive, values: [ml]}`).

## Devices and cores

```yaml
resources: {gpu: 2}                              # two whole cards; 400m: a share of one card
devices: {models: {gpu: [a100, h100]}, within: link_group}
```

* `gpu` and `gpu/...` are whole devices, or a share of one: `400m` is of one card, never of two. An amount above one
  that isn't whole is refused.
* `gpu_memory: 10GiB` is memory of one card, with a share of it or alone.
* `devices.models`: by kind the models that will do, one or a list.
* `devices.within`: `link_group`: all devices of a task are linked directly; `numa`: its devices and cores are at one
  NUMA node.
* `cores: 8`: so many whole cores that no other task runs on; `cpu` is as much. `numa: one` is short for
  `devices: {within: numa}`.

[GPUs and other devices](gpus.md) has the whole of it.

## Beside which tasks

```yaml
host_limit: 2                                    # at most two tasks of the job on a host
anti_affinity: [{label: app, value: web, within: rack}]
affinity: [{label: app, value: cache}]           # within: host, unless said
spread: {over: zone, skew: 1}                    # or targets: {north: 50}, or most: 4
within: row                                      # all tasks of the gang in one row
near: rack                                       # on as few racks as possible
segments: 8                                      # each eight of them in one rack
exclusive: true                                  # no task of another job on its hosts
```

* `host_limit`: tasks of all versions of the job count. Each goes by the limit of its own version when it is placed:
  in an update that lowers it, an instance that isn't updated yet may come back beside a new one.
* `affinity`: a task goes where a task with each of the labels runs, on the same `host` or on a host with the same value
  of an attribute. Where none runs in the whole cell and the job has the label itself, its first task goes anywhere.
* `anti_affinity`: a task goes nowhere where a task with one of the labels runs, and a task with such a label goes
  nowhere where one of this job runs.
* Either with a `weight` is a preference: hosts are ranked by the sum of the weights that they don't meet, together with
  those of [constraints](#which-hosts), and no task waits for it. It is this job's wish alone: tasks that it would
  rather not be beside come to it as before.
* `spread`: the value with least tasks of the job comes first. With `skew` none ever has more tasks than that above the
  one with least, of those with a host that takes tasks of the job. `targets` are percent of the tasks by value, the
  other values share the rest evenly: a wish, or with `hard: true` a limit, rounded up. No value ever has more tasks
  than `most`.
* `within`: all tasks of the gang run on hosts with one value of the attribute, on one `host`, or on cards of one
  `link_group` of a host; it waits for that.
* `near`: the gang runs on as few values as there can be, and those are near each other in the
  [tree of hosts](placement.md#near-each-other) of the cell. No gang waits for it.
* `segments`: so many tasks of the gang, by rank, run on hosts with one value of the attribute of `near`, and the gang
  waits for that. With `within` alone its attribute is that of the segments. The gang is a multiple of a segment, and
  its tasks ask for the same.
* `exclusive`: tasks of daemons don't count.

Labels are those with which the jobs were submitted. A host without the attribute counts as if it had a value of its
own, one for all such hosts. Tasks that are bound to a host, of daemons and stateful jobs, go there whatever the rules
say. Others are preempted for one task of such a job at a time, and for a gang only where its rules are `host_limit`,
`within`, `near` and `segments`: with `within` in one group, the first in which enough may leave, tried in the order of
the room that they have.
Two jobs each of which wants to be beside the other wait for ever (`AFFINITY_UNMET`); give both one more label that
both want: their first task then goes anywhere.

## Output

`paceline job logs ID --task N` prints what a run has written, stdout and stderr each to its own; `-f` follows it to
the end of the run, and exits with 0 only then; `--tail 20` begins with the last lines. `paceline job attach ID --task
N` follows from now on, and exits with the exit code of the run; Ctrl-C leaves the run as it is. Neither gives the run
input: `paceline job exec ID -t -- sh` does, in a process of its own. The job's page shows both streams; it has no
terminal.

The host keeps the first 5 MiB of each stream and the newest 2.5 to 5 MiB of the rest, or what `output` says (`{head:
64KiB, tail: 1MiB}`). A follower that is slower than its run misses a part, is told how many bytes, and goes on with a
whole line. Output stays on the host for some days after the run, that of failed runs longest; how much of it is the
host's setting ([hosts](hosts.md#output)). It isn't in the log and doesn't outlive the host.

## Inside a run

`paceline job exec ID [--task N] -- COMMAND` runs a command inside a run, as its user, in its folder, with its
environment, within its limits; `-t` gives it the terminal, `-i` its input. `paceline job cp ID:PATH FILE` copies a
file out of a run, `paceline job port-forward ID LOCAL:PORT` reaches a port of it. Options stand before `--`. What ends
them carries [a code](reasons.md#hosts). The log keeps who entered what (`ExecOpened`, `ExecClosed`). An operator
forbids all three by `paceline cell set exec=off`.

## What was asked for and used

```
paceline job top web                      # live, every five seconds; --once, -o json
paceline usage --by job --pool /research  # ended runs; by job, pool, owner or month
paceline usage --by owner --since 2026-10 -o csv
```

`usage` sums, over runs that have ended, CPU time and memory asked for and used. What was asked for counts from the
order of a run to its end: from then on the room is held for it, also while an image is pulled, and where it never
starts; so `run_s` is longer than the processes ran. Memory used is the most that a run had at a time, for as long as
it ran. A run belongs to the month (UTC) of its end, so a service counts when its runs end. A job counts in `--by job`
until the cell forgets it, seven days after its end; the sums by pool, owner and month stay. Runs of which no host said
what they used, as on a host that was lost, count as asked for (`NOT MEASURED`).

`job top` shows the present alone; `--at`, as `?at=` in the API, is for `usage`, whose sums are then those of that
moment. A server of several cells wants `--cell`, or `--pool`.

## Secrets

`paceline secret put NAME` stores a value, read from stdin. A job that names it under `secrets` gets the newest version
at the moment of its submission, or of its update; `{name: tls, version: 3}` names another. All runs of a version of
the job get the same bytes, and `paceline job get` tells which version that is. To renew a secret: put it, update the
job, delete the old version.

A run finds the value in a file that its user alone can read, `$PACELINE_SECRET_DB` for `db`; the file is in memory and
goes with the run. The value is in no environment, argument, log or page. Where a run writes a line of it to its
output, stars of the same length are kept instead; that is a help against mistakes, as a program may write it in
another form.

A version that was deleted can't come again: a run that needs it fails with `SECRET_MISSING`.

## Volumes

A volume is a folder that the agent keeps on its host between the runs of one task of a stateful job. It is created
empty when a run of the task first starts there, and belongs to the user as whom tasks run. Stop, start, restart and
update leave it as it is, and so does the end of the agent. There is no quota, and what it holds is not counted against
the `disk` of the task.

The task stays on that host. It runs elsewhere, with new volumes, only after the host was removed: by an operator
(`paceline host remove`), or by the cell seven days after it was lost. A volume that an update no longer names is kept,
since the job may be rolled back.

A volume outlives its job. `paceline volume list` shows what hosts keep. `paceline volume remove JOB` removes it with
all data in it; not while the task is to find it on that host. A later job of the same id that comes to the host finds
what was not removed.

## Tasks of daemons

Daemons stand beside the shares of pools ([decision
043](decisions/sharing.md#043-daemons-stand-beside-the-shares-of-pools)). A task of a daemon belongs to its host, and
has the same number there for as long as the cell knows the host. One that a user stopped stays so while its host is
silent or lost. If the host no longer matches, the task leaves the job, and one runs there again when it matches anew.
A host that was removed is no longer known: if it comes back, it counts as a new one, and gets a task that runs.
"""
LEFT_OUT = """\
## How a job ends

`paceline job wait` and `submit --wait` exit with 0 when the job has reached what is waited for, with 1 when it
failed, 8 when it ran for as long as it may (`max_runtime`), and 7 when it was stopped otherwise; of several jobs the
first of 1, 8 and 7 that occurs counts. A job that ends with its controller ends as that did. `paceline job explain`,
`tasks` and `runs` say what ended a run: the reason that a user gave for a stop too.

A batch job that has ended is there until it is forgotten. `paceline job start ID --failed` runs its tasks again that
failed or ran for as long as they may, `--instances 0-9,12` those that are named, also such that succeeded; without
either, those that failed or were stopped. They are new runs of the same job, in its pool, within the bounds of that.
One member of a gang takes its gang along.

## Not supported

Peloton had these; Paceline leaves them out on purpose.

* Executors of one's own, init containers and groups of containers in one task.
* Groups of a directory (LDAP) that own a job: `owner` is a name, and access is by the token of the cell.
* A listing of the files of a task.
* Jobs that depend on others, or start at a time: whatever submits jobs can wait (`paceline job wait`).
* Lockdown of a job against changes.
"""
UNITS = {"(ms|s|m|h|d)": "time", "(MiB|GiB|TiB)": "size", "(KiB|MiB|GiB)": "size", "(m)": "amount"}
"""Names of texts with a unit, by the units in their patterns."""


def page(root: Path) -> str:
    """The page, in Markdown; `root`: the folder that has the examples."""
    schema = json_schema()
    parts = dict(_parts(schema, schema["properties"].values()))
    sections = [HEAD, *_examples(root), "## Fields\n", *_table(schema), *_field_examples()]
    for name, part in parts.items():
        sections += [f"### {name}\n", f"{part['description']}\n", *_table(part)]
    return "\n".join([*sections, RUNS, LEFT_OUT])


def _examples(root: Path) -> Iterator[str]:
    yield "## One complete example of each kind\n"
    for kind in KINDS:
        text = (root / EXAMPLES / f"{kind}.yaml").read_text()
        yield f"`{EXAMPLES}/{kind}.yaml`\n\n```yaml\n{text}```\n"


def _parts(
    schema: Mapping[str, Any], values: Any, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts that values refer to, by name, each before those that it refers to itself; not those `above`."""
    for value in values:
        for name in _references(value):
            if name not in above:
                part = schema["$defs"][name]
                yield name, part
                yield from _parts(schema, part["properties"].values(), (*above, name))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
    elif isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        yield from _references([inner for name, inner in value.items() if name != "default"])


def _field_examples() -> Iterator[str]:
    yield "An example of each; those of the parts are within them:\n"
    yield "```yaml"
    for name, text in FIELD_EXAMPLES.items():
        yield f"{name}: {text.split(ALONE)[0]}"
        yield from (f"# or {name}: {other}" for other in text.split(ALONE)[1:])
    yield "```\n"


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | value | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else _default(field)
        cells = (f"`{name}`", _type(field), default, _meaning(field))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    refers = next(_references(dict(field)), None) is not None
    if value is None or value in ([], {}, "") or (refers and isinstance(value, dict)):
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _meaning(field: Mapping[str, Any]) -> str:
    text: str = field.get("description", "")
    return "" if text.startswith("a time with a unit") else text


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if ways := field.get("anyOf") or field.get("oneOf"):
        kinds = [_type(each) for each in ways if each.get("type") != "null" and "const" not in each]
        measured = next((kind for kind in kinds if kind in UNITS.values()), None)
        return measured or " or ".join(dict.fromkeys(kinds))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    match field.get("type"):
        case "array":
            return f"list of {_type(field['items'])}" + _at_most(field.get("maxItems"))
        case "object":
            values: Mapping[str, Any] = next(iter(field.get("patternProperties", {}).values()), {})
            return ("map of numbers" if values.get("type") == "integer" else "map of texts") + _at_most(
                field.get("maxProperties")
            )
        case "integer" | "number":
            return "number" + _bounds(field)
        case "boolean":
            return "`true`, `false`"
    unit = next((unit for ending, unit in UNITS.items() if ending in field.get("pattern", "")), None)
    return unit or "text" + _at_most(field.get("maxLength"), " characters")


def _at_most(number: int | None, unit: str = "") -> str:
    return "" if number is None else f", at most {number:,}{unit}"


def _bounds(field: Mapping[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    return "" if low is None or high is None else f", {low:,} to {high:,}"


if __name__ == "__main__":
    sys.stdout.write(page(Path.cwd()))
