import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sympy

from agon.config import VerifierSettings
from agon.verifiers import compare, pool
from agon.verifiers.math import MathChecker, check_plainly

LIMIT_S = 2.0


@pytest.fixture(scope="module")
def checker():
    made = MathChecker(VerifierSettings(timeout_s=LIMIT_S, workers=2))
    made.check([(r"\sqrt{4}", "2.0")])  # start the processes
    yield made
    made.close()


CASES = [
    # M05, different tiny numbers
    (r"\frac{1}{2^{80}}", r"\frac{1}{2^{79}}", "wrong"),
    ("0.0000001", "0.0000002", "wrong"),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}", "wrong"),
    (r"(1, \frac{1}{2^{80}})", r"(1, 2^{-80})", "correct"),
    # M06, a formula that does not parse is never partly used
    (r"1-\frac{1}{\mathrm{e}}", r"1+\frac{1}{\mathrm{e}}", "wrong"),
    ("4", r"4\sqrt(3)", "wrong"),
    ("4", r"\frac{34}{16}+\frac{\sqrt{1358}}{16}", "wrong"),
    # M08, hedging
    ("7", "maybe 3, 5, 7 or 9", "wrong"),
    ("7", "1,2,3,4,5,6,7,8,9", "wrong"),
    ("7", "17", "wrong"),
    # M09, sets both ways
    (r"5 \text{ and } 11", "11, 5", "correct"),
    ("5, 11", "11", "wrong"),
    ("5, 11", "5, 11, 13", "wrong"),
    # M11, units
    (r"5\text{ cm}", "5", "correct"),
    (r"5\text{ cm}", "5 cm", "correct"),
    (r"5\text{ cm}", r"5\text{ m}", "wrong"),
    # M12, commas
    ("0,1", "(0, 1)", "correct"),
    ("1234", "1,234", "correct"),
    ("3,11,33", "31133", "wrong"),
    ("1,000, 500", "500, 1000", "correct"),
    ("1,000, 500", "1000500", "wrong"),
    ("(1,100)", "1100", "wrong"),
    # M14, wrappers
    ("42", r"\text{42}", "correct"),
    (r"\frac{1}{2}", r"\boxed{0.5}", "correct"),
    # M15, markdown and unicode
    ("-3", "\u22123", "correct"),
    ("0.5", "\u00bd", "correct"),
    ("12", "**12**", "correct"),
    ("1000", "1e3", "correct"),
    (r"\sqrt{2}", "\u221a2", "correct"),
    ("2", "\uff12", "correct"),
    # M18, text is never evaluated
    ("12", r"\pi.__class__", "unparsed"),
    ("12", "__import__('os').getpid()", "unparsed"),
    ("12", "(1).__class__.__mro__[1].__subclasses__() or 12", "unparsed"),
    # what math-verify is for
    (r"x^2+2x+1", "(x+1)^2", "correct"),
    (r"x^2+2x+1", "(x+2)^2", "wrong"),
    (r"\sin^2 x", r"1-\cos^2 x", "correct"),
    (r"(-\infty, 3)", "x < 3", "correct"),
    (r"(-\infty, 3)", r"x \le 3", "wrong"),
    ("[0,1)", "[0,1]", "wrong"),
    ("x = 5", "5", "correct"),
    ("2 = x", "2", "correct"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2.0\end{bmatrix}", "correct"),
    (r"\sqrt{2}", "1.4142135623730951", "correct"),
    (r"\sqrt{2}", "1.414", "wrong"),
    ("204_5", "204_{6}", "wrong"),
    (r"\frac{3}{2}n + \frac{1}{2}m", r"\frac{3n+m}{2}", "correct"),
    ("x \\ne 3", r"x \neq 3", "correct"),
    ("x \\ne 3", r"x = 3", "wrong"),
    (r"\text{Evelyn}", "Carla", "wrong"),
    ("even", "odd", "wrong"),
    ("0.005", r"\frac{1}{2}\%", "correct"),
    (r"10\%", "10", "correct"),
]


def test_cases_of_the_written_rules(checker):
    verdicts = checker.check([(gold, answer) for gold, answer, _ in CASES])
    found = [(gold, answer, verdict.outcome) for (gold, answer, _), verdict in zip(CASES, verdicts, strict=True)]
    assert found == CASES


def test_a_hanging_answer_times_out_alone_and_its_neighbours_keep_their_verdicts(checker):
    hang = r"|9^{9^{9^9}} - 5|"
    good = [(rf"\sqrt{{{n}}}", f"{n}^{{1/2}}") for n in range(101, 116)]
    start = time.monotonic()
    verdicts = checker.check([("12", hang), *good])
    assert verdicts[0].outcome == "timeout"
    assert verdicts[0].reason == "took longer than 2 s"
    assert [verdict.outcome for verdict in verdicts[1:]] == ["correct"] * 15
    # the limit, plus a process started anew on a machine that others use as well
    assert time.monotonic() - start < LIMIT_S + 15
    assert checker.check([("12", r"\sqrt{144}")])[0].outcome == "correct"


def test_any_number_of_threads_may_check_at_once(checker):
    pairs = [("12", rf"\sqrt{{{144 + n % 2}}}") for n in range(64)]
    with ThreadPoolExecutor(64) as threads:
        outcomes = list(threads.map(lambda pair: checker.check([pair])[0].outcome, pairs))
    assert outcomes == ["correct", "wrong"] * 32


def test_waiting_for_a_worker_is_not_counted(checker):
    # together far more than one limit of work for two processes
    pairs = [(f"x + {n}", f"{n} + x") for n in range(1000)]
    assert {verdict.outcome for verdict in checker.check(pairs)} == {"correct"}


def test_what_sympy_cannot_compare_is_wrong_and_what_fails_in_our_own_code_is_an_error(monkeypatch):
    monkeypatch.setattr(compare, "is_same_whole", lambda *args: sympy.solve("?"))
    found = compare.compare("x", "y")
    assert found == ("wrong", "cannot be shown to be equal (SympifyError)")
    monkeypatch.setattr(compare, "is_same_whole", None)
    with pytest.raises(TypeError):
        compare.compare("x", "y")


def test_a_gold_answer_that_is_too_long_is_the_datas_fault():
    verdict = check_plainly("1" * 2001, "1")
    assert verdict is not None
    assert verdict.is_masked
    assert verdict.reason == "the gold answer has 2001 characters; more than 2000 are not read"


def test_text_that_looks_like_code_makes_no_file_and_the_next_answer_is_judged(checker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    codes = [
        "[open('marker','w')]",
        "__import__('os').system('touch marker')",
        r"\sqrt{open('marker','w')}",
        "x if open('marker','w') else 12",
    ]
    verdicts = checker.check([("12", code) for code in codes] + [("12", r"\sqrt{144}")])
    assert [verdict.is_correct for verdict in verdicts] == [False] * 4 + [True]
    assert list(tmp_path.iterdir()) == []


def test_a_worker_writes_no_file_takes_no_more_memory_than_allowed_and_loads_no_torch(tmp_path):
    code = (
        "import signal, sys\n"
        "from agon.verifiers.worker import limit_resources\n"
        "import agon.verifiers.compare\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('torch', 'transformers')]\n"
        "limit_resources(1024)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try: f = open('marker', 'w'); f.write('x'); f.flush()\n"
        "except OSError: print('no file')\n"
        "try: bytearray(2**30)\n"
        "except MemoryError: print('no memory')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "no file\nno memory\n"
    assert (tmp_path / "marker").read_text() == ""


def test_the_environment_of_a_worker_holds_no_secret(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert "hf_secret" not in str(pool.worker_environment())


@pytest.mark.parametrize(
    ("gold", "answer", "outcome"),
    [
        ("12", "12.0", "correct"),
        ("12", "13", "wrong"),
        (r"\frac{\pi}{2}", r"\frac{\pi}{2}", "correct"),
        ("12", "x" * 2001, "unparsed"),
    ],
)
def test_plain_answers_need_no_process(gold, answer, outcome):
    verdict = check_plainly(gold, answer)
    assert verdict is not None
    assert verdict.outcome == outcome


def test_what_needs_mathematics_is_left_to_a_process():
    assert check_plainly("12", r"\sqrt{144}") is None
    made = MathChecker(VerifierSettings())
    made.check([("12", "12"), ("12", "0.5")])
    assert not made._pool.is_open
    made.close()


def test_the_same_pair_is_compared_once(checker, monkeypatch):
    asked = []
    pool = checker._pool.get()
    monkeypatch.setattr(pool, "ask", lambda pairs: asked.extend(pairs) or type(pool).ask(pool, pairs))
    pair = ("y + 1", "1 + y")
    assert [verdict.outcome for verdict in checker.check([pair] * 8)] == ["correct"] * 8
    assert checker.check([pair])[0].outcome == "correct"
    assert asked == [pair]
