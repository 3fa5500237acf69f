"""Adapters: giftrl inside other libraries, one module each; importing one needs its library.

=============================== ===========================================================
:mod:`giftrl.adapters.river`    online learning from dictionaries with growing features
=============================== ===========================================================
"""

__all__: list[str] = []
