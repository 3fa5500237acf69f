"""The data sets: their addresses, their sizes, and fingerprints to verify a download."""

from typing import NamedTuple

#: Where the data sets of LIBSVM are.
SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


class Dataset(NamedTuple):
    """A data set: its path below :data:`SITE`, its size, and the fingerprint of its numbers.

    The fingerprint is :func:`giftrl.sweeps.fingerprint`, a SHA-256 of the numbers and not of the bytes. A mirror that
    compresses the file differently passes the check; a file with one wrong digit does not. The fingerprints below are
    those of the copies with which the paper's figures were reproduced; these came from other public sites.

    >>> REGISTRY["ijcnn1"].file
    'ijcnn1.bz2'
    """

    name: str
    path: str
    task: str
    rows: int
    features: int
    fingerprint: str

    @property
    def file(self) -> str:
        """The file name."""
        return self.path.rsplit("/", 1)[-1]


# fmt: off
_ALL = (
    Dataset("a9a", "binary/a9a", "classification", 32561, 123,
            "da67dd42e94520ff7ffef42ee314af73b99deb38c2238be626de7ed3ce0ac868"),
    Dataset("ijcnn1", "binary/ijcnn1.bz2", "classification", 49990, 22,
            "879848889bc4cae8bd85dc025756e4a35c485a1d8cecfb0687b06fd145e5b9c7"),
    Dataset("phishing", "binary/phishing", "classification", 11055, 68,
            "4b7fe58cf997430f7455fd5e5cb778766164ca22c4525a88860f038e15199884"),
    Dataset("abalone", "regression/abalone", "regression", 4177, 8,
            "71502a74356dee648d68c6e5ac82de4fc674459124164513bcf589dd721110dc"),
    Dataset("cpusmall", "regression/cpusmall", "regression", 8192, 12,
            "814092eaa4300f79e93110311f20e07bf2c7038a775e46acdfecc913ff3ff887"),
)
# fmt: on

#: Every data set of the paper by its name, with its size and digest.
REGISTRY = {dataset.name: dataset for dataset in _ALL}
