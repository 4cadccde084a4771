import json
import os
import re
import shutil
import subprocess

import pytest

from agon.report import page as page_module
from agon.report.collect import collect
from agon.report.page import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

CATCH = (
    "<script>window.failures = []; addEventListener('error', (event) => window.failures.push(event.message));</script>"
)
DRIVE = """<script>addEventListener("load", () => {
  const out = { errors: window.failures };
  const all = (query) => [...document.querySelectorAll(query)];
  const press = (key, target) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const choose = (id, value) => { const select = document.getElementById(id); select.value = value; select.dispatchEvent(new Event("change")); };
  const rows = () => all("#matrix-table tbody tr").filter((row) => row.offsetHeight > 0).map((row) => row.cells[1].firstChild.textContent.trim());
  out.headlines = rows();
  choose("table-filter", "single"); out.single = rows();
  all("#matrix-table th button").find((button) => button.textContent.startsWith("pass@1")).click();
  out.sorted = all("#matrix-table tbody tr").filter((row) => !row.hidden).map((row) => Number(row.cells[2].dataset.value));
  const first = document.querySelector("#charts .chart");
  const counts = () => [first.querySelectorAll(".curve").length, first.querySelectorAll(".band").length];
  out.pressed = all("#curve-controls .legend button").map((button) => button.getAttribute("aria-pressed"));
  out.before = counts();
  all("#curve-controls .legend button").find((button) => button.getAttribute("aria-pressed") === "true").click(); out.fewer = counts();
  all("#curve-controls > button").find((button) => button.textContent === "hide all").click(); out.none = counts();
  all("#curve-controls > button").find((button) => button.textContent === "as at first").click(); out.again = counts();
  const shapes = () => new Set(all("#curve-controls .legend .swatch path").map((path) => path.getAttribute("d"))).size;
  out.shapes = shapes();
  const plot = document.querySelector("#frontier-plot svg");
  const marks = () => plot.querySelectorAll(".mark-shape").length;
  out.points = [marks()]; choose("frontier-rows", "every"); out.points.push(marks());
  press("Home", plot); out.tip = document.querySelector("#frontier-plot .tip").textContent; out.tipHidden = document.querySelector("#frontier-plot .tip").hidden;
  out.shelf = document.querySelector("#reader-app select").selectedOptions[0].textContent;
  out.width = [document.documentElement.scrollWidth, window.innerWidth];
  const result = document.createElement("pre"); result.id = "driven"; result.textContent = JSON.stringify(out); document.body.append(result);
});</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [500, 1300])
def test_a_browser_filters_the_table_toggles_arms_and_names_points(study, fake, tmp_path, monkeypatch, width):
    monkeypatch.setattr(page_module, "MAX_RUNS_IN_FULL", 7)
    arms = {**study.arms, "margin": ("margin", "agon", "exchange", 0.6)}
    tree = study.matrix(fake, tmp_path / "m", arms=arms, steps=6, n=8)
    source = render(collect([tmp_path / "m"]), tree)
    # The page's policy names its own script by its hash, and would not run the test's.
    source = re.sub(r"'sha256-[^']+'", "'unsafe-inline'", source)
    source = source.replace("<body>", "<body>" + CATCH).replace("</body>", DRIVE + "</body>")
    (tmp_path / "driven.html").write_text(source)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += (
        f" --disable-component-update --disable-sync --window-size={width},900 --user-data-dir={tmp_path / 'profile'}"
    )
    command = [str(CHROMIUM), *flags.split(), "--dump-dom", (tmp_path / "driven.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ}).stdout
    found = re.search(r'<pre id="driven">(.*?)</pre>', dom)
    assert found is not None
    out = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    assert out["errors"] == []
    assert out["headlines"] == ["single"] * 3 + ["cascade"] * 3
    assert out["single"] == ["single"] * 6
    assert out["sorted"] == sorted(out["sorted"], reverse=True)
    # Five trained arms, four of them shown: two with one line (GRPO has no challenger), two with two; a band for each line.
    assert sorted(out["pressed"]) == ["false"] + ["true"] * 4
    assert out["before"] == out["again"] == [6, 6]
    assert out["fewer"] == [5, 5]
    assert out["none"] == [0, 0]
    assert out["shapes"] == 4
    # Headlines and the base at first, then every row: 1 of the base, 1 of each GRPO, 5 of each pair.
    assert out["points"][0] >= 6
    assert out["points"][1] == 18
    assert out["tipHidden"] is False
    assert "pass@1" in out["tip"]
    assert out["shelf"].startswith("Agon: cascade")
    assert out["width"][0] <= out["width"][1]
