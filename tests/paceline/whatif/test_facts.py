"""Every kind of fact has its rule for a branch, and its row in the page."""

import re

from events.records import entitlement, hosts, jobs, lifecycle, placement, pools, sla, tasks
from events.topics import FACTS
from paceline.whatif.facts import RULES
from tests.helpers import ROOT

MODULES = (entitlement, hosts, jobs, lifecycle, placement, pools, sla, tasks)
ROW = re.compile(r"^\| (replayed|made anew|moved|left out) \| (.*?) \|", re.MULTILINE)


def test_every_kind_of_fact_has_its_rule_and_no_other_has_one():
    facts = {record.__name__ for module in MODULES for record in module.ALL if record.topic in FACTS}
    assert {*RULES} == facts


def test_the_page_names_each_kind_beside_its_rule():
    rows = ROW.findall((ROOT / "docs" / "what-if.md").read_text())
    told = {name: rule for rule, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == {name: rule.value for name, rule in RULES.items()}
