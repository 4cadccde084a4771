import re

import httpx
import pytest
from playwright.sync_api import expect


def play(page, problem, *, gold=None, model=None):
    page.get_by_label("Problem", exact=True).fill(problem)
    if gold is not None:
        page.get_by_label("Right answer").fill(gold)
    if model is not None:
        page.locator(".choice", has_text=re.compile(f"{model}$")).click()
    page.get_by_role("button", name="Start").click()


def wait_for_end(page):
    expect(page.get_by_role("button", name="Start")).to_be_enabled()


def stage(page, kind):
    return page.locator(f".stage.{kind}")


def test_draft_and_challenge_stream_side_by_side_and_the_summary_crosses_without_the_answer(open_page, served):
    page = open_page()
    play(page, "2 + 2 = ?", gold="4")
    expect(page.locator(".outcome")).to_contain_text("draft wrong → challenge right")
    draft, crossing, challenge = (stage(page, kind) for kind in ("drafter", "crossing", "challenger"))
    expect(draft.locator(".thought")).to_have_text("two and\ntwo")
    expect(draft).to_contain_text("Therefore the answer is 5.")
    expect(draft.locator(".answer")).to_contain_text("answer 5")
    expect(draft.locator(".badge")).to_have_text("wrong")
    # Its answer stood in a phrase and in a block, and none of its reasoning crosses.
    expect(crossing.locator("mark.withheld")).to_have_count(2)
    expect(crossing.locator(".badge")).to_have_text("2 withheld")
    assert crossing.locator(".text").inner_text() == "I add them up.\nTherefore the answer is withheld.\nwithheld"
    expect(challenge.locator(".badge")).to_have_text("right")
    # A token a character and one to stop; the prompt of the draft is the bare question.
    expect(draft.locator(".facts")).to_have_text(
        re.compile(rf"^{len(served.draft) + 1} tokens in 0\.\d\d s; prompt of 9$")
    )
    expect(page.locator(".outcome")).to_contain_text(f"{len(served.draft) + len(served.challenge) + 2} tokens in all")
    boxes = [one.bounding_box() for one in (draft, crossing, challenge)]
    assert boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
    assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]


def test_text_of_a_model_is_shown_and_never_run(open_page):
    page = open_page()
    play(page, "mean <img src=y onerror='window.hit = 3'>", gold="<b>4</b>")
    wait_for_end(page)
    expect(stage(page, "challenger").locator(".text")).to_contain_text(
        "<img src=x onerror='window.hit = 2'><b>bold</b> &amp;"
    )
    expect(stage(page, "drafter").locator(".thought")).to_have_text("<script>window.hit = 1</script>")
    expect(page.locator("#match .problem .text")).to_have_text("mean <img src=y onerror='window.hit = 3'>")
    assert page.evaluate("[window.hit, document.querySelectorAll('main img, main b, main script').length]") == [None, 0]


@pytest.mark.parametrize("slow", ["drafter", "challenger"])
def test_stop_keeps_what_had_arrived_and_frees_the_place_on_the_server(open_page, served, slow):
    page = open_page(reduced_motion="reduce")
    given_up = served.backend.num_given_up
    play(page, f"slow {slow}")
    running = stage(page, slow)
    expect(running).to_have_attribute("data-state", "running")
    expect(running.locator(".facts")).to_contain_text("writing for")
    expect(running.locator(".thought")).to_have_text(re.compile("^so on on( on)*$"))
    if slow == "drafter":
        expect(stage(page, "challenger")).to_contain_text("waits for the draft")
    assert (
        running.evaluate(
            "node => getComputedStyle(node.querySelector('.text > div:last-child'), '::after').animationName"
        )
        == "none"
    )
    assert served.backend.num_open == 1
    page.keyboard.press("Escape")
    expect(page.locator(".outcome")).to_contain_text("Stopped by you")
    expect(running.locator(".facts")).to_have_text("broken off here")
    assert served.wait_until_free(within_s=2.0)
    assert served.backend.num_given_up == given_up + 1
    expect(page.locator("#history .mark")).to_have_text("■")
    expect(page.locator("#score")).to_contain_text("Nothing yet")


def test_an_error_in_mid_stream_is_told_and_what_had_arrived_stays(open_page):
    page = open_page()
    play(page, "breaks")
    expect(page.get_by_role("alert").filter(has_text="the engine failed: out of memory")).to_contain_text(
        "What had arrived is kept"
    )
    expect(page.locator(".outcome")).to_contain_text("Failed")
    expect(stage(page, "drafter")).to_contain_text("I add them up.")
    expect(stage(page, "challenger").locator(".thought")).to_have_text("so far")
    wait_for_end(page)


def test_a_server_that_vanishes_in_mid_stream_is_no_short_answer(open_page, serve):
    with serve() as brief:
        page = open_page(brief.url, refuses=True)
        play(page, "slow challenger")
        expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    expect(page.locator(".outcome")).to_contain_text("Failed")
    wait_for_end(page)
    play(page, "2 + 2 = ?")
    expect(page.locator("#match .error-box")).to_contain_text("The server cannot be reached.")
    expect(page.locator("#history li")).to_have_count(1)


def test_a_stream_that_ends_without_saying_so_is_no_short_answer(open_page):
    page = open_page(refuses=True)
    chunk = 'data: {"choices": [{"index": 0, "delta": {"content": "four"}, "finish_reason": null}]}\n\n'
    page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=chunk))
    play(page, "2 + 2 = ?")
    expect(page.locator("#match .error-box")).to_contain_text("The connection ended before the match did.")
    expect(stage(page, "challenger")).to_contain_text("four")
    page.unroute("**/v1/chat/completions")
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    play(page, "2 + 2 = ?")
    expect(page.locator("#match .error-box")).to_contain_text("The server answered with status 502.")


def test_a_full_server_says_when_to_start_again_and_leaves_no_match_behind(open_page, served):
    page = open_page(refuses=True)
    body = {"model": "drafter", "messages": [{"role": "user", "content": "slow drafter"}], "stream": True}
    with httpx.Client(trust_env=False) as client:
        for _ in range(2):
            response = client.send(
                client.build_request("POST", f"{served.url}/v1/chat/completions", json=body), stream=True
            )
            assert response.status_code == 200
        play(page, "2 + 2 = ?")
        expect(page.locator("#match .error-box")).to_contain_text(re.compile(r"Start again in \d+ s\."))
        expect(page.locator("#match h2")).to_contain_text("Not played")
        expect(page.locator("#visit")).to_be_hidden()
        expect(stage(page, "drafter")).to_be_hidden()
    assert served.wait_until_free(within_s=2.0)
    play(page, "2 + 2 = ?")
    expect(page.locator("#match h2")).to_contain_text("Match 1")
    wait_for_end(page)


def test_the_direction_switch_swaps_who_drafts_and_players_can_be_seen_alone(open_page):
    page = open_page()
    expect(page.locator(".choice")).to_have_text(
        [
            "A → B cascade",
            "B → A cascade-b-a",
            "likelier of A and B likeliest",
            "A alone drafter",
            "B alone challenger",
            "base alone base",
        ],
        use_inner_text=True,
    )
    play(page, "2 + 2 = ?", gold="4", model="cascade-b-a")
    expect(page.locator(".outcome")).to_contain_text("challenge right")
    expect(stage(page, "drafter").locator("h3")).to_contain_text("by B")
    expect(stage(page, "challenger").locator("h3")).to_contain_text("by A")
    play(page, "2 + 2 = ?", model="base")
    expect(page.locator(".outcome")).to_contain_text("answer wrong")
    expect(page.locator(".stage")).to_have_count(1)
    expect(page.locator(".stage h3")).to_have_text(re.compile("^Answer"))
    expect(page.locator("#score tbody tr")).to_have_text(
        ["B → A\t1\t0\t1\t1\t0", "base alone\t1\t–\t0\t–\t–"], use_inner_text=True
    )


def test_two_drafts_are_written_side_by_side_and_the_likelier_is_marked_as_the_answer(open_page, served):
    page = open_page()
    page.get_by_role("radio", name="likelier of A and B").check(force=True)
    expect(page.locator("#match .before")).to_have_count(2)
    expect(page.get_by_label("Most tokens of the draft")).to_be_disabled()
    play(page, "two drafts of 2 + 2", gold="4")
    expect(page.locator(".outcome")).to_contain_text("answer right")
    expect(page.locator(".stage h3 small")).to_have_text(["by A", "by B: the answer"])
    expect(page.locator(".stage h3")).to_contain_text(["Draft 1", "Draft 2"])
    expect(page.locator(".stage .badge")).to_have_text(["wrong", "right"])
    first, second = (stage(page, "drafter").nth(at) for at in (0, 1))
    # Each text stands in its own place, once.
    expect(first.locator(".thought")).to_have_text("two and\ntwo")
    expect(first.locator(".answer")).to_contain_text("answer 5")
    expect(second.locator(".thought")).to_have_text("no, four")
    expect(second.locator(".text")).to_contain_text(
        re.compile(r"^[^<]*It is one more than three\.\s*<answer>4</answer>$")
    )
    num_tokens = len(served.draft) + len(served.challenge) + 2
    expect(page.locator(".outcome")).to_contain_text(f"{num_tokens} tokens in all")
    boxes = [one.bounding_box() for one in (first, second)]
    assert boxes[0]["x"] < boxes[1]["x"]
    assert boxes[0]["y"] == boxes[1]["y"]
    play(page, "2 + 2 = ?", gold="4")
    expect(page.locator(".outcome")).to_contain_text("answer wrong")
    expect(page.locator("#score tbody tr")).to_have_text(["likelier of A and B\t2\t–\t1\t–\t–"], use_inner_text=True)


def test_both_drafts_are_seen_to_be_written_and_a_stop_ends_both(open_page, served):
    page = open_page()
    given_up = served.backend.num_given_up
    play(page, "slow drafter", model="likeliest")
    for at in (0, 1):
        expect(stage(page, "drafter").nth(at)).to_have_attribute("data-state", "running")
        expect(stage(page, "drafter").nth(at).locator(".thought")).to_have_text(re.compile("^so on on( on)*$"))
    expect(page.locator(".outcome")).to_contain_text("The drafts are being written")
    page.keyboard.press("Escape")
    expect(page.locator(".outcome")).to_contain_text("Stopped by you")
    assert served.wait_until_free(within_s=2.0)
    assert served.backend.num_given_up == given_up + 2


def test_a_match_of_the_visit_is_shown_again_and_can_be_asked_again_with_its_seed(open_page):
    page = open_page()
    play(page, "first", gold="5")
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge wrong")
    seed = re.search(r"seed (\d+)", page.locator("#match h2").inner_text())[1]
    play(page, "second", gold="4")
    expect(page.locator(".outcome")).to_contain_text("draft wrong → challenge right")
    play(page, "third")
    wait_for_end(page)
    expect(page.locator("#history .mark")).to_have_text(["✗→✓", "✗→✓", "✓→✗"], use_inner_text=True)
    # Matches, drafts that were right, answers that were right, and what the challenge made of the drafts.
    expect(page.locator("#score tbody tr")).to_have_text(["A → B\t3\t1\t2\t2\t1"], use_inner_text=True)
    page.locator("#history button").nth(2).click()
    expect(page.locator("#match .problem")).to_contain_text("first")
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge wrong")
    expect(page.locator("#history [aria-current=true]")).to_contain_text("first")
    page.get_by_role("button", name="Ask this again").click()
    expect(page.get_by_label("Problem", exact=True)).to_have_value("first")
    expect(page.get_by_label("Seed")).to_have_value(seed)
    expect(page.get_by_label("Right answer")).to_have_value("5")


def test_a_running_match_goes_on_while_an_older_one_is_looked_at(open_page):
    page = open_page()
    play(page, "2 + 2 = ?", gold="4")
    wait_for_end(page)
    play(page, "slow challenger", gold="4")
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    page.locator("#history button").nth(1).click()
    expect(stage(page, "challenger")).to_have_attribute("data-state", "ended")
    page.locator("#history button").nth(0).click()
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    page.get_by_role("button", name="Stop this match").click()
    expect(page.locator("#match")).to_be_focused()
    wait_for_end(page)


def test_a_cap_is_kept_and_told_its_stand_in_crosses_and_a_value_out_of_bounds_is_pointed_at(open_page):
    page = open_page()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Most tokens of the draft").fill("40")
    play(page, "endless", gold="4")
    expect(page.locator(".outcome")).to_contain_text("challenge right")
    expect(stage(page, "drafter").locator(".facts")).to_contain_text("40 tokens in")
    expect(stage(page, "drafter").locator(".facts")).to_contain_text("cut off at the cap")
    expect(stage(page, "crossing").locator(".badge")).to_have_text("stand-in")
    more = page.locator("#more")
    more.locator("summary").click()
    expect(more).not_to_have_attribute("open", "")
    page.locator("#temperature").evaluate("field => { field.value = 3; }")
    page.locator("#start").click()
    expect(page.locator("#temperature")).to_be_focused()
    expect(page.locator("#match h2")).to_contain_text("Match 1")


def test_a_picked_problem_brings_its_right_answer_which_typing_takes_away(open_page):
    page = open_page()
    problem, gold = page.get_by_label("Problem", exact=True), page.get_by_label("Right answer")
    page.get_by_role("button", name="The run's test problems").click()
    expect(page.locator("#problems .where")).to_have_text("1 to 10 of 25")
    page.get_by_role("button", name="next").click()
    expect(page.locator("#problems .where")).to_have_text("11 to 20 of 25")
    page.get_by_role("button", name="12 + 2 = ?").click()
    expect(problem).to_have_value("12 + 2 = ?")
    expect(gold).to_have_value("14")
    problem.press_sequentially("!")
    expect(gold).to_have_value("")
    page.get_by_role("button", name="One at random").click()
    expect(problem).to_have_value(re.compile(r"^\d+ \+ 2 = \?$"))
    assert gold.input_value() == str(int(problem.input_value().split()[0]) + 2)


def test_a_visit_needs_no_mouse_and_the_focus_is_always_seen(open_page):
    page = open_page()
    # The form is there when the server has said what it offers; what is drawn anew loses the focus.
    expect(page.locator("input[name=model]").first).to_be_attached()
    expect(page.locator("#about")).not_to_be_empty()
    focused = "document.activeElement"
    seen = (
        f"getComputedStyle({focused}.matches('.choice input') ? {focused}.nextElementSibling : {focused}).outlineStyle"
    )
    order = []
    for _ in range(8):
        page.keyboard.press("Tab")
        order.append(page.evaluate(f"{focused}.id || {focused}.name || {focused}.className || {focused}.parentNode.id"))
        assert page.evaluate(seen) != "none"
    assert order == ["skip", "problem", "random", "browse", "gold", "model", "start", "more"]
    page.focus("#problem")
    page.keyboard.type("line one")
    page.keyboard.press("Enter")
    page.keyboard.type("slow challenger")
    expect(page.locator("#problem")).to_have_value("line one\nslow challenger")
    page.keyboard.press("Control+Enter")
    expect(stage(page, "challenger")).to_have_attribute("data-state", "running")
    expect(page.locator("#said")).to_have_text("Match 1: Challenge by B is being written.")
    page.keyboard.press("Escape")
    expect(page.locator("#said")).to_have_text("Match 1: Stopped by you.")
    page.focus("input[name=model]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    # Start cannot be pressed while a match is played: the focus is where it can be stopped, and comes back.
    expect(page.locator("#stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#start")).to_be_focused()
    expect(page.locator("#match h2")).to_contain_text("B → A")


@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_shows_the_stages_below_each_other_and_never_scrolls_sideways(open_page, width):
    page = open_page(width=width, is_mobile=True, has_touch=True)
    widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    before = page.evaluate(widths)
    page.get_by_role("button", name="The run's test problems").click()
    page.get_by_text("More", exact=True).click()
    play(page, "wide" + "x" * 300, gold="9" * 180)
    wait_for_end(page)
    expect(page.locator(".outcome")).to_contain_text("draft right → challenge right")
    # The match is looked at, not the form above it.
    assert page.evaluate("document.querySelector('#match').getBoundingClientRect().top") < 100
    after = page.evaluate(widths)
    assert before[0] <= before[1] == width
    assert after[0] <= after[1] == width
    boxes = [stage(page, kind).bounding_box() for kind in ("drafter", "crossing", "challenger")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert boxes[1]["y"] + boxes[1]["height"] <= boxes[2]["y"]
    assert len({box["x"] for box in boxes}) == 1


def test_the_browser_itself_asks_for_the_key_and_sends_it_along(open_page, serve):
    with serve(keys=("open sesame",)) as guarded:
        assert httpx.get(guarded.url, trust_env=False).status_code == 401
        page = open_page(guarded.url, http_credentials={"username": "any", "password": "open sesame"})
        play(page, "2 + 2 = ?", gold="4")
        expect(page.locator(".outcome")).to_contain_text("challenge right")
