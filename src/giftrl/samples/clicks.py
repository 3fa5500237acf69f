"""A stream of advertisements shown and clicked on: made up, and what people like changes while it runs."""

import datetime
import json
import math
import random

from giftrl.samples.sample import Sample

ROWS = 20_000
BEGIN = datetime.datetime(2025, 3, 1)
SITES = ("news", "sport", "mail", "weather", "games")
ADS = ("shoes", "phone", "travel", "bank", "pizza", "books", "cars", "films")
DEVICES = ("phone", "desktop", "tablet")


def rows() -> bytes:
    """A JSON object a line, one for each advertisement that was shown.

    >>> rows().decode().splitlines()[0]
    '{"clicked": 0, "hour": 0, "site": "news", "ad": "shoes", "device": "phone", "user": "u348", "seen_before": 0}'
    """
    chance = random.Random(20250301)
    taste = {(site, ad): chance.gauss(0.0, 0.8) for site in SITES for ad in ADS}
    appeal = {ad: chance.gauss(0.0, 0.7) for ad in ADS}
    lines, when = [], BEGIN
    for row in range(ROWS):
        # The drift: appeals take a small step now and then, and halfway a campaign turns them round.
        if row % 50 == 0:
            appeal = {ad: 0.995 * value + chance.gauss(0.0, 0.06) for ad, value in appeal.items()}
        if row == ROWS // 2:
            appeal = {ad: -value for ad, value in appeal.items()}
        when += datetime.timedelta(seconds=1 + int(chance.expovariate(1 / 40.0)))
        site, ad, device = chance.choice(SITES), chance.choice(ADS), chance.choices(DEVICES, (6, 3, 1))[0]
        user, seen = int(500 * chance.random() ** 2), int(chance.expovariate(0.5))
        evening = 1.0 if 18 <= when.hour < 23 else 0.0
        score = -1.4 + taste[site, ad] + appeal[ad] + 0.5 * evening - 0.3 * seen - 0.6 * (device == "tablet")
        clicked = int(chance.random() < 1.0 / (1.0 + math.exp(-score)))
        features = {
            "hour": when.hour, "site": site, "ad": ad, "device": device, "user": f"u{user}", "seen_before": seen,
        }  # fmt: skip
        lines.append(json.dumps({"clicked": clicked, **features}))
    return "".join(f"{line}\n" for line in lines).encode()


CLICKS = Sample(
    "clicks",
    "clicks.jsonl",
    "a stream: is an advertisement clicked on? What people like changes halfway",
    "made up by a program with a fixed seed",
    rows,
    "--label clicked --labels 0,1 -q site:ad",
)
