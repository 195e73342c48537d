"""Numbers as people write and read them: 100M tokens, 3h, 1.2 GB."""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from litebert.errors import RequestError

__all__ = [
    "finite_numbers",
    "format_bytes",
    "format_count",
    "format_duration",
    "format_share",
    "is_finite",
    "parse_bandwidth",
    "parse_corpus",
    "parse_count",
    "parse_duration",
    "parse_rate",
]

BYTES_PER_TOKEN = 4
_COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_STEPS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_count(text: str) -> int:
    """Read a number with an optional k, M, B or T.

    >>> parse_count("1.5M")
    1500000
    """
    match = re.fullmatch(r"\s*(\d[\d,_]{0,30}(?:\.\d{1,30})?)\s*([kmbgt]?)\s*", text.lower())
    count = int(float(match[1].replace(",", "").replace("_", "")) * _COUNTS[match[2]]) if match else 0
    if not 0 < count <= 10**18:
        raise RequestError(f"{text!r} is no number of tokens; write it like 250000, 80k, 1.5M or 2B")
    return count


def parse_corpus(text: str) -> int:
    """Read the size of a corpus in tokens, or in bytes of text: four of them make a token, roughly.

    >>> parse_corpus("25M"), parse_corpus("100MB")
    (25000000, 25000000)
    """
    in_bytes = re.fullmatch(r"(.*[kmgt])b", text.strip().lower())
    return parse_count(in_bytes[1]) // BYTES_PER_TOKEN if in_bytes else parse_count(text)


def parse_duration(text: str) -> float:
    """Read a time in seconds, from s, m, h and d.

    >>> parse_duration("1h30m")
    5400.0
    """
    compact = text.lower().replace(" ", "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", compact)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != compact or not 0 < seconds <= 10**9:
        raise RequestError(f"{text!r} is no duration; write it like 45s, 30m, 3h or 2d")
    return seconds


def parse_bandwidth(text: str) -> float:
    """Read the speed of a link in bits a second, from bits (25Gbit, 25Gbps, 25Gb/s) or bytes (3GB/s).

    >>> parse_bandwidth("25Gbit"), parse_bandwidth("3GB/s")
    (25000000000.0, 24000000000.0)
    """
    match = re.fullmatch(r"(\d{1,30}(?:\.\d{1,30})?)([kKMGT]?)(bit(?:/s)?|bps|b/s|B/s)", text.replace(" ", ""))
    bits = float(match[1]) * _STEPS[match[2].lower()] * (8 if match[3] == "B/s" else 1) if match else 0.0
    if not 0 < bits <= 1e18:
        raise RequestError(f"{text!r} is no speed of a link; write it like 300Mbit, 25Gbit or 3GB/s")
    return bits


def parse_rate(text: str) -> float:
    """Read floating-point operations a second.

    >>> parse_rate("50T"), parse_rate("1.5 PFLOP/s")
    (50000000000000.0, 1500000000000000.0)
    """
    compact = text.lower().replace(" ", "")
    match = re.fullmatch(r"(\d{1,30}(?:\.\d{1,30})?)([kmgtp]?)(?:flops?(?:/s)?)?", compact)
    rate = float(match[1]) * _STEPS[match[2]] if match else 0.0
    if not 1e9 <= rate <= 1e21:  # a forgotten unit is far below
        raise RequestError(f"{text!r} operations a second is no machine's rate; write it like 300G, 50T or 50TFLOP/s")
    return rate


def format_count(number: float) -> str:
    """Three digits and a unit.

    >>> format_count(11683584), format_count(950)
    ('11.7M', '950')
    """
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def format_bytes(number: float) -> str:
    """Bytes in decimal units.

    >>> format_bytes(47255240)
    '47.3 MB'
    """
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"


def format_duration(seconds: float) -> str:
    """A time as the two units that matter.

    >>> format_duration(5430), format_duration(42.4)
    ('1 h 30 min', '42 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def format_share(part: float, whole: float = 1.0) -> str:
    """A share in percent; a dash if there is nothing to have a share of.

    >>> format_share(0.687), format_share(2, 3), format_share(0, 0)
    ('68.7 %', '66.7 %', '–')
    """
    return f"{100 * part / whole:.1f} %" if whole else "–"


def is_finite(value: object) -> TypeGuard[float]:
    """Whether something is a finite number; what is absurdly large counts as infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e99 < value < 1e99


def finite_numbers(content: Mapping[Any, Any]) -> dict[Any, float]:
    """The entries that are finite numbers."""
    return {key: value for key, value in content.items() if is_finite(value)}
