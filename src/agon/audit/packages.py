"""Which packages agon asks for, and whether they are here."""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement

from agon.audit.findings import Finding

REQUIRED = "packages"
OPTIONAL = "optional packages"
_DISTRIBUTION = "agon-rl"
# For those who work on agon itself.
_NOT_FOR_USERS = frozenset({"dev"})


def look_at_packages() -> list[Finding]:
    """Compare what agon's own metadata asks for with what is installed; nothing is imported."""
    try:
        wanted = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        remedy = "pip install -e . in agon's folder"
        return [Finding(REQUIRED, _DISTRIBUTION, "missing", "not installed: its requirements are not known", remedy)]
    extras = metadata.metadata(_DISTRIBUTION).get_all("Provides-Extra") or []
    requirements = [Requirement(line) for line in wanted]
    findings = [_look(one, None) for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    for extra in sorted(set(extras) - _NOT_FOR_USERS):
        own = [one for one in requirements if one.marker is not None and _is_of(one, extra)]
        findings += [_look(one, extra) for one in own]
    return findings


def _is_of(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _look(requirement: Requirement, extra: str | None) -> Finding:
    name, wanted = requirement.name, str(requirement.specifier)
    group = REQUIRED if extra is None else OPTIONAL
    install = f"pip install {_DISTRIBUTION}" if extra is None else f'pip install "{_DISTRIBUTION}[{extra}]"'
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(group, name, "broken" if extra is None else "missing", "not installed", install)
    if not requirement.specifier.contains(found, prereleases=True):
        return Finding(group, name, "broken", f"{found}, but agon needs {wanted}", f'pip install "{name}{wanted}"')
    return Finding(group, name, "ok", found)
