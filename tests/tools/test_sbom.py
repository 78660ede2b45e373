"""The list of what Paceline is made of names every package of the lock, with its hashes and its licence."""

import json
import subprocess
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing

from tools import sbom
from tools.sbom import LOCK, NOT_HERE, OUTPUT, ROOT, licence, packages, page


def test_each_pinned_line_is_a_package_with_its_hashes() -> None:
    text = LOCK.read_text()
    assert len(packages()) == sum("==" in line for line in text.splitlines() if line[:1].isalnum())
    assert sum(len(each.hashes) for each in packages()) == text.count("--hash=sha256:")


def test_each_licence_is_an_expression() -> None:
    terms = get_spdx_licensing()
    told = {each.name: licence(each.name) for each in packages()}
    wrong = {name: text for name, text in told.items() if not text or terms.validate(text).errors}
    assert wrong == {"venusian": "LicenseRef-BSD-derived-Repoze"}


def test_the_page_of_licences_is_that_of_the_lock() -> None:
    assert (ROOT / "docs" / "licences.md").read_text() == page()


def test_the_list_is_valid_and_says_what_needs_what() -> None:
    subprocess.run([sys.executable, "-m", sbom.__name__, "--cyclonedx"], cwd=ROOT, check=True)
    text = OUTPUT.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    needs = {each["ref"]: each.get("dependsOn", []) for each in json.loads(text)["dependencies"]}
    reached, next_ones = set[str](), ["paceline"]
    while next_ones:
        ref = next_ones.pop()
        if ref not in reached:
            reached.add(ref)
            next_ones += needs[ref]
    others = {each.name for each in packages() if each.ref not in reached}
    assert others == set(NOT_HERE), "what no other needs isn't part of it"
