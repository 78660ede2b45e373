"""Lists the packages that Paceline is made of: `make sbom` writes them in the form of CycloneDX to `dist/`.

`python -m tools.sbom > docs/licences.md` writes the licences of the same packages; a test keeps that page so. Versions
and hashes are those of `requirements/run.txt`, the rest is what the installed packages say.
"""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from events import VERSION

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "run.txt"
OUTPUT = ROOT / "dist" / f"paceline-{VERSION}.cdx.json"
PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)((?: ;[^\\\n]*)?)((?: \\\n    --hash=\S+)+)", re.MULTILINE)
HASH = re.compile(r"sha256:(\w+)")
SPDX = {
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "MIT License": "MIT",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
    "BSD-derived (Repoze)": "LicenseRef-BSD-derived-Repoze",
}
"""Licences of packages that name them in words: by the file that each of them comes with."""
NOT_HERE = {"colorama": "BSD-3-Clause", "httpx2-jsfetch": "BSD-3-Clause"}
"""Packages of the lock that no machine with Linux installs."""
HEAD = """\
# Licences

What `pip install paceline[s3]` brings, with the licence that each package names. Paceline itself is under Apache-2.0
([LICENSE](../LICENSE)). `make sbom` writes the same list, with hashes and what needs what, as CycloneDX. What tests and
tools need beyond it is in `requirements/dev.txt`.

Made from `requirements/run.txt` by `python -m tools.sbom > docs/licences.md`; a test keeps it so.

| package | version | licence |
| --- | --- | --- |
"""


class Package(NamedTuple):
    """A line of the lock. `when`: where it is installed; `hashes`: of its files, in hex."""

    name: str
    version: str
    when: str
    hashes: tuple[str, ...]

    @property
    def ref(self) -> str:
        """Its name in the list."""
        return f"{self.name}=={self.version}"


def packages() -> list[Package]:
    """The packages of the lock, by name."""
    lines = PINNED.findall(LOCK.read_text())
    return [Package(name, at, when.strip(" ;"), tuple(HASH.findall(rest))) for name, at, when, rest in lines]


def licence(name: str) -> str:
    """The licence of a package, an expression of SPDX where it can be."""
    if name in NOT_HERE:
        return NOT_HERE[name]
    about = metadata.metadata(name).json
    if expression := about.get("license_expression"):
        return str(expression)
    words = str(about.get("license", ""))
    if not words or "\n" in words:
        classes = [each.split(" :: ")[-1] for each in about.get("classifier", ()) if each.startswith("License")]
        words = " OR ".join(sorted(classes))
    return SPDX.get(words, words)


def needs(package: Package) -> set[str]:
    """The names of what a package asks for here."""
    if package.name in NOT_HERE:
        return set()
    requirements = [Requirement(each) for each in metadata.requires(package.name) or ()]
    return {
        canonicalize_name(each.name)
        for each in requirements
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }


def component(package: Package) -> Component:
    """A package as the list has it."""
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in package.hashes]
    purl = PackageURL("pypi", None, package.name, package.version)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=package.ref,
        purl=purl,
        description=f"where {package.when}" if package.when else None,
        licenses=[LicenseFactory().make_from_string(licence(package.name))],
        external_references=[
            ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(purl.to_string()), hashes=hashes)
        ],
    )


def bom() -> Bom:
    """Paceline and all that it is made of."""
    parts = {each: component(each) for each in packages()}
    paceline = Component(
        name="paceline",
        version=VERSION,
        type=ComponentType.APPLICATION,
        bom_ref="paceline",
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )
    listing = Bom(components=parts.values())
    listing.metadata.component = paceline
    listing.metadata.tools.components.add(this_component())
    direct = {canonicalize_name(Requirement(each).name) for each in metadata.requires("paceline") or ()}
    listing.register_dependency(paceline, [part for each, part in parts.items() if each.name in direct])
    for package, part in parts.items():
        names = needs(package)
        listing.register_dependency(part, [other for each, other in parts.items() if each.name in names])
    return listing


def page() -> str:
    """The page of licences."""
    rows = (f"| {each.name} | {each.version} | {licence(each.name)} |" for each in packages())
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    """Writes the page, or the list."""
    if sys.argv[1:] != ["--cyclonedx"]:
        sys.stdout.write(page())
        return
    OUTPUT.parent.mkdir(exist_ok=True)
    writer = make_outputter(bom(), OutputFormat.JSON, SchemaVersion.V1_6)
    writer.output_to_file(str(OUTPUT), allow_overwrite=True, indent=2)
    print(f"{OUTPUT.relative_to(ROOT)}: {len(packages())} packages")


if __name__ == "__main__":
    main()
