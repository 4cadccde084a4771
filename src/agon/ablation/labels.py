"""What an evaluation is called in a matrix, or by `agon eval --evaluations`, says how it is made: `single-a`, `cascade-a-b`,
`majority-a-k4`, `single-a-doubled-cap`, `single-a-dev`.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from agon.errors import ConfigError
from agon.evaluation.request import Wish
from agon.records import PROTOCOLS

_LABEL = re.compile(
    rf"(?P<protocol>{'|'.join(map(re.escape, PROTOCOLS))})(-(?P<who>a-b|b-a|a|b))?"
    r"(-k(?P<drafts>[0-9]{1,9}))?(-l(?P<layers>[0-9]{1,9}))?"
    r"(?P<agreement>-agreement)?(?P<doubled>-doubled-cap)?(?P<dev>-dev)?"
)

MICROSCOPE = "microscope"
"""Stands among the evaluations of a pair for a look at the pair itself (`agon eval RUN --microscope`)."""


def wish_named(label: str) -> Wish:
    """Return what a label asks for: PROTOCOL, then who plays (`-a`, `-b`, `-a-b`, `-b-a`), `-kN` drafts, `-lN` layers, `-agreement`
    (what a selective cascade doubts by), `-doubled-cap`, `-dev` (on the development problems).

    A protocol of two players without a direction takes the one that is better on the development problems.

    Raises:
        ConfigError: it asks for nothing that there is.
    """
    found = _LABEL.fullmatch(label)
    if found is None:
        raise ConfigError(
            f"evaluation {label!r} is not known: write PROTOCOL, then -a, -b, -a-b or -b-a, -kN, -lN, -agreement, -doubled-cap, -dev "
            f"(single-a, cascade-a-b, majority-a-k4); protocols: {', '.join(PROTOCOLS)}"
        )
    who, drafts = found["who"], found["drafts"]
    return Wish(
        protocol=found["protocol"],
        direction=who if who in ("a-b", "b-a") else "dev",
        adapter=who if who in ("a", "b") else None,
        num_drafts=None if drafts is None else int(drafts),
        split="dev" if found["dev"] else "test",
        label=label,
        layers=None if found["layers"] is None else int(found["layers"]),
        doubt="agreement" if found["agreement"] else None,
        has_doubled_cap=found["doubled"] is not None,
        is_from_label=True,
    )


@contextmanager
def blamed_on(label: str) -> Generator[None]:
    """Name the evaluation that is to blame when one of several cannot be made.

    Raises:
        ConfigError: what was raised inside, with the label.
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"evaluation {label!r}: {error}") from None
