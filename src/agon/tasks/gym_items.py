"""The program that generates problems: `python -m agon.tasks.gym_items FAMILY SIZE SEED` writes one JSON line an item."""

from __future__ import annotations

import json
import os
import sys

from agon.gym_items import item_of, level_of


def main() -> None:
    """Write every item of a family."""
    family, size, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints must not be taken for an item
    for index in range(size):
        row: dict[str, object] = {"family": family, "size": size, "seed": seed, "index": index}
        try:
            item = item_of(family, size, seed, index)
            row |= {"question": item["question"], "answer": item["answer"], "level": level_of(item)}
        except Exception as error:  # one item that cannot be made must not cost the others
            row["fault"] = f"could not be generated ({type(error).__name__}: {error})"[:200]
        lines.write(json.dumps(row) + "\n")
    lines.close()


if __name__ == "__main__":
    main()
