"""Looks at what is there and changes nothing: verdicts on labelled answers, on stored completions, on programs; a machine; two runs."""
