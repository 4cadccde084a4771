"""Every page of docs/ is listed in its index, and every link and mention of a page leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# Where a page is named without a link: in code, recipes, examples and the other pages.
_MENTION = re.compile(r"(?<![\w/.])docs/[\w\-/]+\.(?:md|html)")
_MENTIONING = ("src/**/*.py", "src/**/*.toml", "src/**/*.html", "examples/*.py", "benchmarks/*.py", "scripts/*.py")


def prose(text):
    """The text without code, in which brackets are no links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    # Four spaces after a blank line begin a block; in a list they are text.
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", "", text)
    return re.sub(r"(`+).+?\1", "", text)


def anchors(text):
    """The anchors that GitHub gives the headings of a page."""
    found, seen = set(), {}
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_anchor_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for link in _LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is no such file"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{link}: there is no such heading"


def test_every_page_is_listed_once_in_the_index_in_a_line_of_its_own():
    lines = INDEX.read_text(encoding="utf-8").splitlines()
    listed = [_LINK.findall(line) for line in lines if line.startswith("- ")]
    assert all(len(links) == 1 for links in listed)
    # A folder of pages is one entry; a folder of data is none.
    there = [path.name for path in DOCS.iterdir() if path.suffix in (".md", ".html") or any(path.glob("*.md"))]
    there.remove(INDEX.name)
    assert sorted(link for (link,) in listed) == sorted(there)
    # one screen
    assert len(lines) <= 50


def test_every_page_that_is_named_in_code_or_text_is_there():
    files = [*PAGES, *(path for pattern in _MENTIONING for path in ROOT.glob(pattern))]
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in _MENTION.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_anchors_are_made_as_github_makes_them():
    page = "# The server, under load (`python benchmarks/x.py`)\n## [Keys](a.md)\n```\n# no heading\n```\n## Keys\n### `agon eval`\n"
    assert anchors(page) == {"the-server-under-load-python-benchmarksxpy", "keys", "keys-1", "agon-eval"}


def test_brackets_in_code_are_no_links():
    page = "[a](b.md) `[c](d.md)`\n\n    [e](f.md)\n\n- list\n    [g](h.md)\n"
    assert _LINK.findall(prose(page)) == ["b.md", "h.md"]
