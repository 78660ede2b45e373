"""Small cells in which bugs of sharing are planted: in each something holds that the bug breaks."""

THREE_POOLS = """
end: 4m
hosts: [{name: h, resources: {cpu: 9}}]
pools: [{path: /a}, {path: /b}, {path: /c}]
jobs:
  - {job_id: b, pool: /b, instances: 4, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: a, pool: /a, at: 10s, instances: 5, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: c, pool: /c, at: 20s, resources: {cpu: 3}, sim: {duration: 9h}}
expect:
  - {by: 4m, that: job c tasks RUNNING == 1}
"""
"""The last pool needs what two others have beyond their share, not what one has."""

OVERSIZE = """
end: 4m
hosts: [{name: h, resources: {cpu: 4}}]
pools: [{path: /a}, {path: /b}]
jobs:
  - {job_id: a, pool: /a, resources: {cpu: 4}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 10s, instances: 2, resources: {cpu: 1}, sim: {duration: 9h}}
expect:
  - {never: cell preempted > 0}
"""
"""A task that is larger than what its pool has beyond its share has its slice."""

CAP = """
end: 15m
cell: {preemptions_per_hour: 1}
hosts: [{name: h, resources: {cpu: 1}}]
pools: [{path: /a}]
jobs:
  - {job_id: low, pool: /a, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: h1, pool: /a, at: 10s, priority: 5, resources: {cpu: 1}, sim: {duration: 1m}}
  - {job_id: h2, pool: /a, at: 10m, priority: 5, resources: {cpu: 1}, sim: {duration: 1m}}
"""
"""A higher priority comes twice within an hour."""

REFUSES = """
end: 5m
hosts: [{name: h, resources: {cpu: 2}}]
pools: [{path: /a}, {path: /b, reservation: {cpu: 1}}]
jobs:
  - job_id: web
    pool: /a
    kind: stateless
    instances: 2
    resources: {cpu: 1}
    sla: {max_unavailable: 0}
    sim: {duration: 9h}
  - {job_id: b, pool: /b, at: 10s, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: more, pool: /b, at: 4m, resources: {cpu: 1}, sim: {duration: 9h}}
"""
"""A service that may never be disturbed is all that could leave."""

PARTLY_REFUSED = """
end: 5m
hosts: [{name: h, resources: {cpu: 2}}]
pools: [{path: /a}, {path: /b, reservation: {cpu: 2}}]
jobs:
  - job_id: web
    pool: /a
    kind: stateless
    resources: {cpu: 1}
    sla: {max_unavailable: 0}
    sim: {duration: 9h}
  - {job_id: batch, pool: /a, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 10s, resources: {cpu: 2}, sim: {duration: 9h}}
expect:
  - {never: cell preempted > 0}
"""
"""Two would have to leave, of which one is a service that may never be disturbed."""

SETTLES = """
end: 8m
hosts:
  - {name: x, resources: {cpu: 1}, attributes: {at: x}}
  - {name: y, resources: {cpu: 1}, attributes: {at: y}, joins: 30s}
pools: [{path: /a}, {path: /b, reservation: {cpu: 1}}]
jobs:
  - {job_id: high, pool: /a, priority: 5, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: low, pool: /a, at: 40s, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 1m, constraints: [{attribute: at, values: [x]}], resources: {cpu: 1}, sim: {duration: 9h}}
"""
"""Who was displaced is entitled to the place of a lower priority."""

STUBBORN = """
end: 6m
hosts: [{name: h, resources: {cpu: 4}}]
pools: [{path: /a, reservation: {cpu: 2}}, {path: /b}, {path: /c, reservation: {cpu: 1}}]
jobs:
  - {job_id: soft, pool: /b, instances: 3, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: stubborn, pool: /b, at: 10s, resources: {cpu: 1}, sim: {duration: 9h, ignores_stop: true}}
  - {job_id: a, pool: /a, at: 20s, resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: c, pool: /c, at: 80s, resources: {cpu: 1}, sim: {duration: 9h}}
expect:
  - {by: 6m, that: job a tasks RUNNING == 1}
"""
"""Of two that leave for a task one takes its time, and another task would fit where the first one was."""

NEVER_ASKS = """
end: 3m
hosts: [{name: h, count: 4, resources: {cpu: 2}}]
pools: [{path: /a, reservation: {cpu: 4}, preemption_delay: never}, {path: /b}]
jobs:
  - {job_id: b, pool: /b, instances: 8, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: a, pool: /a, at: 10s, instances: 2, resources: {cpu: 2}, sim: {duration: 9h}}
"""
"""Two claims that may ask nobody to leave, each of a whole host."""

ONE_IS_ENOUGH = """
end: 4m
hosts: [{name: h, resources: {cpu: 3}}]
pools: [{path: /a, reservation: {cpu: 2}}, {path: /b}]
jobs:
  - {job_id: large, pool: /b, resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: small, pool: /b, at: 10s, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: a, pool: /a, at: 20s, instances: 2, gang: {min: 2}, resources: {cpu: 1}, sim: {duration: 9h}}
expect:
  - {by: 4m, that: job a tasks RUNNING == 2}
"""
"""For the first task of a gang a small one would do, for both only a large one, and then the small one stays."""

BORROWED_WAITS = """
end: 3m
cell: {reserve_after: 1h}
hosts: [{name: h, count: 2, resources: {cpu: 3}}]
pools: [{path: /a, reservation: {cpu: 4}, preemption_delay: never}, {path: /b}, {path: /c}]
jobs:
  - {job_id: c, pool: /c, resources: {cpu: 2}, sim: {duration: 80s}}
  - {job_id: a, pool: /a, at: 5s, instances: 2, resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 6s, resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: more, pool: /c, at: 7s, resources: {cpu: 2}, sim: {duration: 9h}}
expect:
  - {by: 2m, that: job a tasks RUNNING == 2}
"""
"""A claim and borrowed work wait for the same room."""

GIVEN_BACK = """
end: 2m
cell: {reserve_after: 1h, lend_after: 10s}
hosts:
  - {name: x, resources: {cpu: 3}, attributes: {at: x}}
  - {name: y, resources: {cpu: 3}, attributes: {at: y}}
pools: [{path: /a, reservation: {cpu: 6}, preemption_delay: never}, {path: /b}]
jobs:
  - {job_id: long, pool: /a, constraints: [{attribute: at, values: [x]}], resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: short, pool: /a, constraints: [{attribute: at, values: [y]}], resources: {cpu: 2}, sim: {duration: 92s}}
  - {job_id: big, pool: /a, constraints: [{attribute: at, values: [x]}], resources: {cpu: 3}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 65s, resources: {cpu: 2}, sim: {duration: 9h}}
expect:
  - {by: 108s, that: job b tasks RUNNING == 1}
"""
"""Room comes while what was given back waits for its next try."""

ROOM_BESIDE = """
end: 20m
hosts: [{name: h, count: 2, resources: {cpu: 3}}]
pools: [{path: /a, reservation: {cpu: 6}, preemption_delay: never}, {path: /b}]
jobs:
  - {job_id: a, pool: /a, instances: 3, strategy: spread, resources: {cpu: 2}, sim: {duration: 9h}}
  - {job_id: b, pool: /b, at: 1s, instances: 2, resources: {cpu: 1}, sim: {duration: 9h}}
"""
"""What a claim can't use is too small for it, and others could."""

FIRM_IN_THE_WAY = """
end: 5m
hosts: [{name: h, count: 2, resources: {cpu: 2}}]
pools: [{path: /a, reservation: {cpu: 4, memory: 1GiB}}]
jobs:
  - job_id: firm
    pool: /a
    instances: 2
    preemptible: false
    strategy: spread
    resources: {cpu: 1}
    sim: {duration: 9h}
  - {job_id: high, pool: /a, at: 10s, priority: 5, resources: {cpu: 2}, sim: {duration: 9h}}
"""
"""Work that isn't preemptible stands in the way of a higher priority."""

GANG_IN_THE_WAY = """
end: 4m
hosts: [{name: h, resources: {cpu: 4}}]
pools: [{path: /a, reservation: {cpu: 1}}, {path: /b}]
jobs:
  - {job_id: gang, pool: /b, instances: 4, gang: {min: 4}, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: a, pool: /a, at: 10s, resources: {cpu: 1}, sim: {duration: 9h}}
"""
"""A task needs the place of one member of a gang."""

CLOSED = """
end: 2m
hosts: [{name: h, resources: {cpu: 2}}]
pools: [{path: /a}]
jobs:
  - {job_id: a, pool: /a, instances: 4, resources: {cpu: 1}, sim: {duration: 1m}}
events:
  - {at: 10s, pool: {path: /a, closed: true}}
"""
"""A pool is closed while some of its work waits."""

WAITS = """
end: 1m
hosts: [{name: h, resources: {cpu: 2}}]
pools: [{path: /a}]
jobs:
  - {job_id: a, pool: /a, instances: 4, resources: {cpu: 1}, sim: {duration: 9h}}
"""
"""More is wanted than there is."""

ONE_TURN = """
end: 1h
hosts: [{name: h, count: 4, resources: {cpu: 1}}]
pools: [{path: /a}, {path: /b}]
jobs:
  - {job_id: small, pool: /b, instances: 8, resources: {cpu: 1}, sim: {duration: 9h}}
  - {job_id: gang, pool: /a, at: 10s, instances: 3, gang: {min: 3}, resources: {cpu: 1}, sim: {duration: 9h}}
expect:
  - {by: 1h, that: job gang preempted >= 3}
"""
"""A gang larger than the share of its pool runs for its turn, and others want their share back."""

gang = "  - {job_id: g%d, pool: /a, at: 1m, instances: 4, gang: {min: 4}, resources: {cpu: 1}, sim: {duration: 10m}}\n"
MANY_TURNS = f"""
end: 53m
hosts: [{{name: h, count: 4, resources: {{cpu: 1}}}}]
pools: [{{path: /a}}, {{path: /b}}]
jobs:
  - {{job_id: small, pool: /b, instances: 400, resources: {{cpu: 1}}, sim: {{duration: 2m}}}}
{"".join(gang % at for at in range(4))}
expect:
  - {{never: job g2 is SUCCEEDED}}
"""
"""Gangs of all that there is come one after another, in a pool with half of it."""
