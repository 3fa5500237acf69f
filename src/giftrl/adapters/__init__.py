"""Adapters: giftrl inside other libraries, one module each; importing one needs its library.

=============================== ===========================================================
:mod:`giftrl.adapters.river`    online learning of dictionaries, with names that may be new
=============================== ===========================================================
"""

__all__: list[str] = []
