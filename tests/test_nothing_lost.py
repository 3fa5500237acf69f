"""No command loses an input, a model or an earlier output, whatever files it is given."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.commands import GIFTRL, environment, giftrl, write_rows

pytestmark = pytest.mark.plain


@pytest.fixture
def rows(tmp_path):
    return write_rows(tmp_path / "rows.svm", n=60)


@pytest.fixture
def model(rows, tmp_path):
    giftrl("train", rows, "--beta", "1", "--bits", "6", "--model", tmp_path / "m", "--quiet")
    return tmp_path / "m"


def contents(folder):
    """Every file below a folder, with its bytes."""
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def refused(folder, *arguments, **options):
    """Assert that a command is refused in one line, and that no file has changed; returns the line."""
    before = contents(folder)
    done = giftrl(*arguments, check=False, **options)
    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert said.startswith("giftrl: ") and said.count("\n") == 1, said
    assert contents(folder) == before
    return said


def test_a_checkpoint_is_not_written_over_the_data(rows, tmp_path):
    data = rows.rename(tmp_path / "d.m.checkpoint")
    said = refused(tmp_path, "train", data, "--checkpoint-every", "10", "--model", tmp_path / "d.m", "--quiet")
    assert "checkpoint" in said and "must not be a file that is read (data)" in said


@pytest.mark.parametrize("first", ["--model", "--summary", "--rejects"])
@pytest.mark.parametrize("second", ["--model", "--summary", "--rejects"])
def test_two_outputs_of_training_are_two_files(rows, tmp_path, first, second):
    if first >= second:
        return
    (tmp_path / "link").symlink_to("a")
    for other in ("a", "./a", "link"):
        said = refused(
            tmp_path, "train", rows, "--on-error", "skip", first, tmp_path / "a", second, f"{tmp_path}/{other}"
        )
        assert "as well" in said


def test_two_outputs_of_predicting_are_two_files(rows, model, tmp_path):
    same = tmp_path / "same"
    said = refused(tmp_path, "predict", model, rows, "-o", same, "--on-error", "skip", "--rejects", same)
    assert "is the file of output as well" in said


@pytest.mark.parametrize("how", ["name", "symbolic link", "hard link"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "DATA", "--model", "OUT"),
        ("train", "DATA", "--summary", "OUT"),
        ("train", "DATA", "--on-error", "skip", "--rejects", "OUT"),
        ("train", "DATA", "--from", "MODEL", "--summary", "MODEL"),
        ("predict", "MODEL", "DATA", "-o", "OUT"),
        ("predict", "MODEL", "DATA", "-o", "MODEL"),
        ("predict", "MODEL", "DATA", "--on-error", "skip", "--rejects", "MODEL"),
        ("convert", "DATA", "OUT"),
        ("convert", "DATA", "a.arrow", "--on-error", "skip", "--rejects", "a.arrow"),
        ("inspect", "MODEL", "--plot", "MODEL"),
    ],
)
def test_an_input_is_not_written_to(rows, model, tmp_path, arguments, how):
    out = rows
    if how == "symbolic link":
        out = tmp_path / "link"
        out.symlink_to(rows)
    elif how == "hard link":
        out = tmp_path / "link"
        out.hardlink_to(rows)
    names = {"DATA": rows, "OUT": out, "MODEL": model, "a.arrow": tmp_path / "a.arrow"}
    refused(tmp_path, *(names.get(each, each) for each in arguments))


def test_a_prediction_is_not_appended_to_what_it_reads(rows, model, tmp_path):
    before = rows.read_bytes()
    with rows.open("ab") as file:
        done = subprocess.run(
            [GIFTRL, "predict", model, rows], stdout=file, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert done.returncode == 1 and b"would never end" in done.stderr
    assert rows.read_bytes() == before


def test_a_bad_row_leaves_yesterdays_predictions(rows, model, tmp_path):
    output = tmp_path / "predictions"
    output.write_text("yesterday\n")
    rows.write_text(rows.read_text() + "1 3:x\n")
    refused(tmp_path, "predict", model, rows, "-o", output)
    assert output.read_text() == "yesterday\n"


def test_skipped_rows_take_the_place_of_yesterdays_when_all_is_done(rows, tmp_path):
    rejects = tmp_path / "rejects"
    rejects.write_text("yesterday\n")
    rows.write_text(rows.read_text() + "1 3:x\n")
    giftrl("train", rows, "--beta", "1", "--bits", "6", "--on-error", "skip", "--rejects", rejects, "--quiet")
    assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [61]
    assert {path.name for path in tmp_path.iterdir()} == {"rows.svm", "rejects"}


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing folder"])
@pytest.mark.parametrize("option", ["--model", "--summary", "--rejects", "-o", "convert"])
def test_an_output_that_cannot_be_a_file_is_refused_before_the_work(rows, model, tmp_path, option, kind):
    path = tmp_path / "it"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "missing folder":
        path = tmp_path / "nowhere" / "it"
    else:
        path = Path("/dev/null")
        if option in ("--summary", "--rejects", "-o"):
            return  # a device that can be written to is one
    skip = ("--on-error", "skip") if option == "--rejects" else ()
    command = {
        "-o": ("predict", model, rows, "-o", path),
        "convert": ("convert", rows, path),
    }.get(option, ("train", rows, "--beta", "1", "--quiet", *skip, option, path))
    said = refused(tmp_path, *command)
    assert "it" in said or "null" in said


def test_a_link_is_followed_and_stays(rows, model, tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    for name, command in {
        "m": ("train", rows, "--beta", "1", "--bits", "6", "--quiet", "--model"),
        "s": ("train", rows, "--beta", "1", "--bits", "6", "--quiet", "--summary"),
        "p": ("predict", model, rows, "-o"),
        "c": ("convert", rows),
    }.items():
        link = tmp_path / name
        link.unlink(missing_ok=True)
        link.symlink_to(real / name)
        giftrl(*command, link)
        assert link.is_symlink() and (real / name).stat().st_size > 0


def test_pipes_and_devices_are_written_to_as_they_are(rows, model):
    train = f"{GIFTRL} train {rows} --beta 1 --bits 6 --quiet --summary /dev/stdout"
    script = f"{GIFTRL} predict {model} {rows} -o >(wc -l) && {train}; wait"
    done = subprocess.run(["bash", "-c", script], capture_output=True, env=environment(), check=True)
    assert b"60\n" in done.stdout and b'"examples": 60' in done.stdout


BIG = "1 1:1e20 2:3\n-1 2:1e20\n1 1:1e20\n-1 1:1e20 2:1\n"
WEIGHTS = "1 {w} |a x:1 y:2\n-1 {w} |a x:2 y:1\n1 {w} |a x:1\n"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (BIG, ("--beta", "1", "--update", "truncated", "--regularizer", "curvature"), ":1: this row leads to numbers"),
        ("1 1:1\n1 1:1e30\n-1 2:1\n", ("--beta", "1e20", "--loss", "squared", "--update", "linear"), ":2: this row"),
        ("1 1:1\n1 1:1e30\n-1 2:1\n", ("--beta", "1", "--loss", "squared", "--regularizer", "curvature"), ":2: this"),
        (WEIGHTS.format(w="1e308"), (), ":2: the sum of the weights"),
        (WEIGHTS.format(w="1e308"), ("--loss", "softmax", "--labels=-1,1"), ":2: the sum of the weights"),
        (WEIGHTS.format(w="1e308"), ("--beta", "1"), ":1: this row leads to numbers beyond"),
        (
            WEIGHTS.format(w="1e308"),
            ("--beta", "1", "--loss", "softmax", "--labels=-1,1"),
            "this row leads to numbers beyond",
        ),
        (WEIGHTS.format(w="1e100"), ("--beta", "1"), "this row leads to numbers beyond"),
    ],
)
def test_a_model_that_could_not_be_loaded_is_not_written(tmp_path, text, options, words):
    data, model = tmp_path / "rows", tmp_path / "m"
    data.write_text(text)
    model.write_bytes(b"a good one")
    assert words in refused(tmp_path, "train", data, *options, "--bits", "6", "--quiet", "--model", model)


def test_every_model_that_is_written_can_be_loaded(tmp_path):
    data, model = tmp_path / "rows.vw", tmp_path / "m"
    for weight in ("1e-300", "1e-30", "1e30", "1e100", "1e150", "1e300"):
        data.write_text(WEIGHTS.format(w=weight))
        for options in ((), ("--beta", "1"), ("--beta", "1e6", "--update", "linear"), ("--loss", "hinge")):
            model.unlink(missing_ok=True)
            done = giftrl("train", data, *options, "--bits", "6", "--quiet", "--model", model, check=False)
            assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, done.stderr
            assert model.exists() == (done.returncode == 0)
            if model.exists():
                giftrl("inspect", model, "--json")


def test_a_file_that_grows_keeps_the_permissions_of_an_earlier_one(rows, tmp_path):
    predictions = tmp_path / "p"
    predictions.write_text("yesterday\n")
    predictions.chmod(0o600)
    giftrl("train", rows, "--beta", "1", "--bits", "6", "-p", predictions, "--quiet")
    assert predictions.stat().st_mode & 0o777 == 0o600 and len(predictions.read_text().splitlines()) == 60


def test_later_passes_read_the_files_of_the_first(tmp_path):
    folder = tmp_path / "days"
    folder.mkdir()
    write_rows(folder / "rows.svm", n=30)
    options = ("--loss", "squared", "--beta", "1", "--bits", "6", "--passes", "2", "--json")
    done = giftrl("train", folder, *options, "-p", folder / "p.svm")
    assert json.loads(done.stdout)["examples"] == 30
