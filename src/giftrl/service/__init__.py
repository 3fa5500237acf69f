"""Models that learn and predict over HTTP.

Three concepts: :mod:`giftrl.service.http` turns a request into an answer, an
:class:`~giftrl.service.online_model.OnlineModel` turns rows into predictions in memory, and a
:class:`~giftrl.service.writer.Writer` is the one thread that changes a model and its files on disk.

>>> import pathlib, tempfile
>>> from giftrl.service.client import Client
>>> from giftrl.service.server import background
>>> with tempfile.TemporaryDirectory() as folder, background(pathlib.Path(folder)) as address:
...     with Client(address) as client:
...         _ = client.create("churn", loss="logistic", labels=["no", "yes"])
...         client.learn("churn", [{"label": "yes", "age": 33}, {"label": "yes", "age": 31}])
['no', 'yes']
"""
