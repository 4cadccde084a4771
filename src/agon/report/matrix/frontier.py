"""Accuracy against tokens, as numbers for the page to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agon.report.matrix.tree import Tree, group_title, in_group_order, name_of, protocol_of, title_of


def frontier_json(tree: Tree) -> dict[str, Any]:
    """Return the points of the plot and the groups they belong to.

    A point holds both costs: `total`, the generated tokens of a problem, and `all`, those plus every token read. It says for each
    whether it is on the front (`front`, `front_all`). `main` points are shown at first, beside the front: headlines, rivals, the base;
    `key` points are named first where there is no room for every name.
    """
    on_front_all = pareto_front([(point["all_tokens"], point["accuracy"]) for point in tree.frontier])
    groups = in_group_order([tree.group_of(tree.rows[point["row"]]) for point in tree.frontier])
    points = []
    for point, is_on_front_all in zip(tree.frontier, on_front_all, strict=True):
        row = tree.rows[point["row"]]
        group = tree.group_of(row)
        beaten_by = point["dominated_by"]
        points.append(
            {
                "name": name_of(row),
                "short": title_of(row) if tree.is_headline(row) else f"{title_of(row)}: {protocol_of(row)}",
                "group": groups.index(group),
                "accuracy": point["accuracy"],
                "low": row["interval"]["low"],
                "high": row["interval"]["high"],
                "total": point["total"],
                "all": point["all_tokens"],
                "front": point["is_on_front"],
                "front_all": is_on_front_all,
                "rival": point["is_rival"],
                "key": tree.is_headline(row) and row["arm"] in tree.key_arms,
                "main": tree.is_headline(row) or row["id"] in tree.rivals or group == "base",
                "beaten_by": name_of(tree.rows[beaten_by]) if beaten_by in tree.rows else None,
            }
        )
    return {"groups": [group_title(group) for group in groups], "points": points}


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Say for every (cost, gain) whether no other point has as much gain for less cost, or more gain for as little."""
    return [
        not any(cost <= own_cost and gain >= own_gain and (cost, gain) != (own_cost, own_gain) for cost, gain in points)
        for own_cost, own_gain in points
    ]
