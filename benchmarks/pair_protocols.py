"""Measure a trained pair in several protocols with one start of the engine, and file the results in the run folder.

    python benchmarks/pair_protocols.py RUN [--protocols NAME ...] [--set KEY=VALUE ...]

`base` and `base-cascade` are the bare base alone and as both players; `a`, `b` an adapter alone; `a-b`, `b-a` the cascade in
either direction; `blind` two answers of which the second counts, unread; `self-a` adapter A reading itself. Each is what `agon eval`
measures by itself; a cascade's result holds the blind second pass on the problems whose draft was wrong.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from agon.evaluation.load import open_run
from agon.evaluation.request import Wish, measure
from agon.runs.evaluations import write_evaluation

WISHES = {
    "base": Wish(protocol="single", adapter="base", label="1-base"),
    "base-cascade": Wish(protocol="cascade", adapter="base", label="2-base-cascade"),
    "a": Wish(protocol="single", adapter="a", label="3-single-a"),
    "b": Wish(protocol="single", adapter="b", label="4-single-b"),
    "blind": Wish(protocol="blind-second", direction="a-b", label="5-blind-second-a-b"),
    "self-a": Wish(protocol="self-cascade", adapter="a", label="6-self-cascade-a"),
    "a-b": Wish(protocol="cascade", direction="a-b", label="7-cascade-a-b"),
    "b-a": Wish(protocol="cascade", direction="b-a", label="8-cascade-b-a"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--protocols", nargs="+", choices=WISHES, default=list(WISHES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    opened = open_run(options.run, tuple(options.set))
    with opened.session:
        for name in options.protocols:
            started = time.perf_counter()
            measured = measure(opened, WISHES[name])
            flat = [match for of_problem in measured.matches for match in of_problem]
            write_evaluation(options.run, measured.result["label"], measured.stored, flat)
            print(f"{line(measured.result)}  ({time.perf_counter() - started:.1f} s)", flush=True)


def line(result: dict) -> str:
    interval = result["interval"]
    rates = ", ".join(
        f"{name} {result[name]:.3f}"
        for name in ("conversion", "blind_second", "regression", "copy_rate")
        if result[name] is not None
    )
    return (
        f"{result['label']:20} {result['accuracy']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}] n {result['n']}, "
        f"{result['tokens']['total']:.0f} tokens, truncated {result['truncated_share']:.3f}  {rates}"
    )


if __name__ == "__main__":
    main()
