"""How the page writes numbers. One that does not exist is a dash."""

from __future__ import annotations

DASH = "–"


def share(value: float | None) -> str:
    """Write a share or a ratio with three decimals."""
    return DASH if value is None else f"{value:.3f}"


def signed(value: float | None) -> str:
    """Write a difference with its sign; a true minus keeps columns in line."""
    return DASH if value is None else f"{value:+.3f}".replace("-", "−")


def figures(value: float | None) -> str:
    """Write a number of any size with three figures."""
    return DASH if value is None else f"{value:.3g}".replace("-", "−")


def number(value: float | None, form: str) -> str:
    """Write a number as a `signed` difference, with three `figures`, or as a `share`."""
    return {"signed": signed, "figures": figures, "share": share}[form](value)


def rounded(value: float | None) -> str:
    """Write a mean of large counts without decimals."""
    return DASH if value is None else f"{value:,.0f}"


def tokens(value: float | None) -> str:
    """Write a mean of tokens with one decimal."""
    return DASH if value is None else f"{value:,.1f}"


def whole(value: int | None) -> str:
    """Write a count."""
    return DASH if value is None else f"{value:,}"


def short(value: float | None) -> str:
    """Write a number with as few figures as it has, at most six."""
    return DASH if value is None else f"{value:g}"


def duration(seconds: float | None) -> str:
    """Write a time in the unit that suits it."""
    if seconds is None:
        return DASH
    if seconds < 60:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"


def p_value(value: float) -> str:
    """Write a p-value with two figures, small ones as a bound."""
    if value < 0.0001:
        return "< 0.0001"
    return f"{value:.2g}" if value < 0.995 else "1"
