from __future__ import annotations

from agon.cli.microscope import lines_of

_INTERVAL = {"low": 0.1, "high": 0.3}
_RATE = {"rate": 0.25, "n": 40, "interval": _INTERVAL}
_OVERLAP = {
    "measures": {"q": 0.5, "rho": 0.25, "error_jaccard": None, "double_fault": 0.125},
    "intervals": {"q": _INTERVAL, "rho": None, "error_jaccard": None, "double_fault": None},
}
_FOUND = {
    "task": "t",
    "split": "test",
    "method": "agon",
    "n": 20,
    "samples": 2,
    "seed": 0,
    "exchange": {
        "a-b": {
            "conversion": _RATE,
            "blind_conversion": None,
            "regression": _RATE,
            "blind_regression": _RATE,
            "copy": _RATE,
            "leak": None,
        }
    },
    "singles": {
        "players": {"A": {"accuracy": 0.2, "interval": _INTERVAL, "pass_at_2": 0.3, "tokens": 12.0}},
        "strength": {"difference": {"difference": -0.05, "interval": _INTERVAL}, "min_detectable": None},
        "overlap": {"A-B": _OVERLAP},
        "union": {
            "union": 0.4,
            "gain": {"gain": 0.1, "interval": _INTERVAL},
            "gain_over_stronger": {"gain": -0.1, "interval": _INTERVAL},
        },
    },
    "policies": [
        {
            "text": "A",
            "first": "A",
            "second": "base",
            "num_tokens": 99,
            "kl": 0.5,
            "kl_reverse": 0.25,
            "js": 0.1,
            "top1_agreement": 0.9,
        }
    ],
    "updates": {
        "norm_first": 1.0,
        "norm_second": 0.0,
        "distance": 2.0,
        "cosine": None,
        "outputs": {"overlap": 0.5, "random_overlap": 0.25, "smallest": 10.0, "largest": 90.0, "median": 45.0},
        "inputs": None,
    },
    "alarms": [{"name": "dead-adapter", "about": "B", "message": "B says what the base says"}],
    "notes": ["a note"],
}


def test_an_examination_is_told_line_by_line_and_what_does_not_exist_is_a_dash():
    assert lines_of(_FOUND) == [
        "t test, the pair of agon: n=20, samples=2, evaluation seed 0, 95% intervals over problems",
        "  a-b: wrong->right 0.250 [0.100, 0.300] of 40, without reading -; "
        "right->wrong 0.250 [0.100, 0.300] of 40, without reading 0.250 [0.100, 0.300] of 40; "
        "copies 0.250 [0.100, 0.300] of 40; leaks -",
        "  A alone: pass@1 0.200 [0.100, 0.300], pass@2 0.300, 12.0 tokens",
        "  B less A: -0.050 [0.100, 0.300]; no difference could be seen",
        "  A-B: Q 0.500 [0.100, 0.300], rho 0.250 [-], Jaccard of errors - [-], both wrong 0.125 [-]",
        "  union 0.400: +0.100 [0.100, 0.300] on the mean pass@2",
        "  union 0.400: -0.100 [0.100, 0.300] on the stronger's pass@2",
        "  on A's 99 tokens, A and base: KL 0.5000 and back 0.2500, JS 0.1000 nats a token, top-1 agreement 0.900",
        "  updates: norms 1.000 and 0.000, distance 2.000, cosine -",
        "  subspaces of outputs: overlap 0.500 (0.250 by chance), angles 10 to 90 degrees, median 45",
        "  ALARM dead-adapter (B): B says what the base says",
        "  a note",
    ]
