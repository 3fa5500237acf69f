"""Customers who stay or leave: a made-up table with what real ones have, from dates to empty cells."""

import datetime
import math
import random

from giftrl.samples.sample import Sample, as_csv

ROWS = 4000
#: The day of the table: customers signed up in the five years before it.
TODAY = datetime.date(2025, 6, 30)
#: Each plan with its monthly fee and how much it holds people back.
PLANS = {"basic": (9.99, 0.5), "family": (24.5, -0.5), "business": (89.0, -0.8)}
PAYMENTS = {"card": -0.2, "direct debit": -0.7, "invoice": 0.8}
COUNTRIES = ("DE", "FR", "IT", "PL", "ES", "NL")

HEAD = (
    "customer_id", "signup_date", "last_login", "country", "plan", "payment", "monthly_fee", "total_spent", "data_gb",
    "support_calls", "age", "satisfaction", "paperless", "family_discount", "churned",
)  # fmt: skip


def rows() -> bytes:
    """The table as CSV.

    >>> rows().decode().splitlines()[1]
    'C100000,2022-01-04,2025-06-14,IT,family,direct debit,24.5,1053.50,15.6,2,60,,true,true,no'
    """
    chance = random.Random(20250630)
    return as_csv(HEAD, [_customer(chance, number) for number in range(ROWS)])


def _customer(chance: random.Random, number: int) -> list[object]:
    days = 1 + int(1800 * chance.random())
    idle = min(days, int(chance.expovariate(1 / 12.0)))
    plan = chance.choices(list(PLANS), (6, 3, 1))[0]
    payment = chance.choices(list(PAYMENTS), (5, 3, 2))[0]
    fee, hold = PLANS[plan]
    fee = round(fee * chance.choice((0.9, 1.0, 1.0, 1.2)), 2)
    spent = fee * (days // 30 + 1)
    gigabytes = chance.lognormvariate(2.5, 1.0)
    calls = min(9, int(chance.expovariate(0.8)))
    age = int(chance.triangular(18, 88, 38))
    satisfaction = chance.choices((1, 2, 3, 4, 5), (1, 1, 3, 4, 3))[0]
    paperless, discount = chance.random() < 0.6, plan == "family" and chance.random() < 0.5
    score = 1.6 * (
        hold + PAYMENTS[payment] - 0.0011 * days + 0.045 * idle + 0.35 * calls - 0.012 * (age - 40)
        - 0.55 * (satisfaction - 3) - 0.4 * paperless - 0.25 * math.log(gigabytes / 12.0) - 0.7 * discount - 0.4
    )  # fmt: skip
    left = chance.random() < 1.0 / (1.0 + math.exp(-score))
    # Some cells are empty, as people do not answer everything.
    return [
        f"C{100_000 + 7 * number}", TODAY - datetime.timedelta(days), TODAY - datetime.timedelta(idle),
        chance.choice(COUNTRIES), plan, payment, fee, f"{spent:.2f}", f"{gigabytes:.1f}", calls,
        age if chance.random() < 0.9 else None, satisfaction if chance.random() < 0.5 else None,
        "true" if paperless else "false", "true" if discount else "false", "yes" if left else "no",
    ]  # fmt: skip


CHURN = Sample(
    "churn",
    "churn.csv",
    "which customers leave: yes or no",
    "made up by a program with a fixed seed; no real people",
    rows,
    "--label churned --ignore customer_id",
)
