"""The program as a new user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cli_cases
import symsgd
from cli_cases import good, process, run
from symsgd.cli import COMMANDS


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    cli_cases.two_labels(folder / "train.svm")
    cli_cases.two_labels(folder / "test.svm", seed=1)
    return folder


def test_from_rows_to_predictions(work: Path) -> None:
    trained = process("train", "train.svm", "-o", "model", "--holdout", "0.2", cwd=work)
    assert trained.code == 0, trained.err
    assert "held-out rows: AUC 0.9" in trained.out
    assert "symsgd: loss: log_loss (2 labels)" in trained.err
    assert "pass 10/10" in trained.err

    judged = process("evaluate", "model", "test.svm", "--json", cwd=work)
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["scores"]["AUC"] > 0.9

    predicted = process("predict", "model", "-", given=(work / "test.svm").read_bytes(), cwd=work)
    assert predicted.code == 0, predicted.err
    assert predicted.err == ""
    labels = predicted.out.split()
    truth = [line.split()[0] for line in (work / "test.svm").read_text().splitlines()]
    assert len(labels) == len(truth)
    assert sum(map(str.__eq__, labels, truth)) > 0.85 * len(truth)


def test_what_is_wrong_is_one_line_and_a_code(work: Path) -> None:
    (work / "bad.svm").write_text("1 1:1\n-1 2:x\n")
    outcome = process("train", "bad.svm", "-o", "never", cwd=work)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.error.startswith("symsgd: error: bad.svm")
    assert "Traceback" not in outcome.err
    assert not (work / "never").exists()


def started(line: str, folder: Path) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "symsgd", *line.split()]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def test_all_the_other_commands_are_programs_too(work: Path) -> None:
    lines = {
        "inspect train.svm": "svmlight",
        "convert train.svm train.store": "600 rows",
        "tune train.svm -o best.toml --step-sizes 0.1,1 --alphas 1e-5 --passes 2": "config: best.toml",
        "spectrum train.svm --block-sizes 64": "smallest of M",
        "twin rcv1 -o rcv1.store --scale 0.001": "rcv1.test.store: ",
        "completion bash": "_SYMSGD_COMPLETE",
        "inspect nothing": "error: nothing: No such file or directory",
        "convert nothing other": "error: nothing: No such file or directory",
        "tune nothing -o other": "error: nothing: No such file or directory",
        "spectrum nothing": "error: nothing: No such file or directory",
        "twin rcv1 -o nothing/store": "error: ",
    }
    running = {line: started(line, work) for line in lines}
    for line, said in lines.items():
        out, err = running[line].communicate(timeout=120)
        if said.startswith("error"):
            assert (running[line].returncode, out) == (1, "")
            assert said in err
        else:
            assert running[line].returncode == 0, err
            assert said in out
    assert not (work / "other").exists()


def test_help_and_mistakes_answer_without_numpy() -> None:
    code = (
        "import sys\nfrom symsgd.cli import main\n"
        "for line in (['--help'], *([name, '--help'] for name in sys.argv[1:]), ['trian']):\n"
        "    try:\n        main(line, prog_name='symsgd')\n"
        "    except SystemExit as end:\n        print('code', end.code)\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'rich'} & sys.modules.keys(), sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *COMMANDS], capture_output=True, text=True, check=True)
    assert done.stdout.count("code 0") == 1 + len(COMMANDS)
    assert done.stdout.endswith("code 2\n")
    assert "No such command 'trian'" in done.stderr
    for command in COMMANDS:
        assert f"symsgd {command}" in done.stdout  # its help has an example


def test_a_damaged_store_is_one_line_too(work: Path) -> None:
    symsgd.data.convert(work / "train.svm", work / "damaged.store")
    content = bytearray((work / "damaged.store").read_bytes())
    content[content.index(symsgd.data.open(work / "damaged.store").y[:8].tobytes())] ^= 1
    (work / "damaged.store").write_bytes(content)
    outcome = process("train", "damaged.store", "-o", "never", "-q", cwd=work)
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "its array 'y' is damaged" in outcome.err


def test_a_reader_that_leaves_ends_it_quietly(work: Path) -> None:
    good("train", work / "train.svm", "-o", work / "model", "-q")
    (work / "long.svm").write_text((work / "test.svm").read_text() * 20)
    program = [sys.executable, "-m", "symsgd", "predict", "model", "long.svm", "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 141


def test_tables_end_quietly_too(work: Path) -> None:
    good("train", work / "train.svm", "-o", work / "model", "-q")
    ear, mouth = os.pipe()
    os.close(ear)  # nobody listens from the beginning
    with open(mouth, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "symsgd", "evaluate", "model", "test.svm"], stdout=nobody, stderr=subprocess.PIPE,
            cwd=work, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, b"")


def test_predictions_do_not_wait_for_the_end_of_the_rows(work: Path) -> None:
    good("train", work / "train.svm", "-o", work / "model", "-q")
    program = [sys.executable, "-m", "symsgd", "predict", "model", "-"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=work) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        answers = b""
        for rows, so_far in ((b"1 1:1 2:1\n", 1), (b"-1 3:1\n1 4:1\n1 5:", 3), (b"2\n", 4)):
            running.stdin.write(rows)
            running.stdin.flush()
            while answers.count(b"\n") < so_far:
                assert select.select([running.stdout], [], [], 60)[0], "a prediction that does not come"
                answers += os.read(running.stdout.fileno(), 1 << 10)
        running.stdin.close()
        assert running.wait() == 0


def test_without_standard_streams(work: Path) -> None:
    program = f"{sys.executable} -m symsgd train train.svm -o closed --passes 1 >&- 2>&-"
    assert subprocess.run(program, shell=True, cwd=work, check=False).returncode == 0
    assert symsgd.load(work / "closed").n_iter_ == 1


def test_ctrl_c_keeps_the_model_reached(work: Path) -> None:
    program = [sys.executable, "-m", "symsgd", "train", "train.svm", "-o", "cut", "--passes", "100000000"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=work) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("pass 3/"):
                break
        os.kill(running.pid, signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait() == 130
    assert "the model so far is in cut" in rest
    assert "Traceback" not in rest
    assert symsgd.load(work / "cut").result_.n_passes >= 3


def test_version() -> None:
    assert run("--version").out == f"symsgd, version {symsgd.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    outcome = run("completion", shell)
    assert outcome.code == 0
    assert "_SYMSGD_COMPLETE" in outcome.out


def test_completion_knows_commands_and_options() -> None:
    asked = {"_SYMSGD_COMPLETE": "bash_complete", "COMP_WORDS": "symsgd train --lo", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", "from symsgd.cli import main; main(prog_name='symsgd')"],
        env=os.environ | asked, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "plain,--loss\n"


def test_without_arguments_it_says_what_there_is() -> None:
    outcome = run()
    assert outcome.code == 2
    assert "Commands:" in outcome.err + outcome.out
