"""Entitlement: owns the pool tree and the queues, decides which units may run and which must leave for others.

**Life of a unit.** A unit is what is admitted at once: a gang whole, a controller, or one task (`parts.py`). Units of a
job that are alike are a part of it, and a part has one place in the queue of its pool. A unit goes through these
states, held in the columns of its tasks (`usage.py` says what each transition adds to counts and sums):

    waits ──admitted──> entitled, without a place: a claim ──placed──> runs ──over──> gone, or waits again
      │                   │ ^          │ ^
      │                   │ └─ranked───┘ └──limit has room── parked: holds nothing under limits
      └─────lent────> borrowed ──placed──> runs, until others have a right to what it holds

* It *waits* from GangsQueued on, unless a bound refuses it for good (`bounds.refused_for_good`), or placement gave it
  back with a lasting code; then it is aside until hosts or pools change.
* It is *admitted* (GangsAdmitted) while what its pool has entitled at its priority and above, with it, is within the
  entitlement of the pool, and no other bound refuses it (`bounds.BOUNDS`). Else the first that refuses it is told
  (GangsHeld).
* It is *lent* to, if it is preemptible, what nobody uses or claims (`lend.py`). Borrowed units keep their place in
  the queue: when their turn comes they are entitled without having moved (AdmissionsRanked).
* A *claim* is entitled and has no place. Once it has waited as long as its pool does, it has a right that others leave
  for it (RightsSet). Claims that take room under a limit that others wait for are *parked* meanwhile.

**Who tells whom.** Lifecycle says which units wait (GangsQueued) and which runs are over (RunsEnded). Entitlement tells
placement which units may run, and by what right. Placement places them (TasksPlaced), gives back those for which there
is no host (GangsReturned), or plans which runs would have to leave and asks (PreemptionAsked). Entitlement confirms
that on exact numbers by the same rules (`processors/state/preemption_rules.py`), and orders it (PreemptionsOrdered) or
refuses it (PreemptionRefused). Lifecycle stops the runs of an order, with the consent of sla, all or none
(PreemptionAnswered). Room under limits and licences has no hosts, so there entitlement orders by itself (`limits.py`).

**Laws.**

1. Entitlements are exact: level by level, resource by resource, weighted max-min over what pools want, reservations
   first (`tree.py`). `solve.py` computes the same at once, and tests hold one against the other.
2. In a queue nobody is overtaken by what needs what it lacks. Other work goes past a head, beside what is kept for it.
3. No bound is exceeded by what is admitted or lent; only bounds that are lowered later may be.
4. A unit leaves only by a rule of `preemption_rules.py`, judged on what the victims before it have left.
5. Decisions follow from rows alone: all that is derived is found again after a restore, and decides the same. What is
   kept to save looks (dirty pools, watches, verdicts) may make a look too many, never one too few.
6. The work of a pass is in proportion to what has changed, and to its budget.

**What must change together.**

* A bound: its class and place in `bounds.py`, a code in `events/codes.py` with its row in `docs/reasons.md`, the bound
  in the checker (`paceline/simulate/checker/`).
* A rank: its row in `events/ranks.py`. A column of tasks: `usage.py` and `parts.py`, `state` with a conversion
  (`conversion.py`).
* A rule by which runs leave: `preemption_rules.py`, used by the plans of placement and the answers here; the checker.
* Something that changes what a pool may do: a touch of its pool, else it isn't looked at; a time that does: the
  deadlines of the machine.
* A step: its place in the table of `machine.py`, with the reason.
"""
