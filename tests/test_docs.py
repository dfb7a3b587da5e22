"""What the pages and scripts of docs/ name is there."""

import importlib.util
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from experiments.sweep import Options, split
from experiments.wiki import EXPERIMENT as WIKI
from lrpt.cli.flags import parse, parse_dataclass
from lrpt.parametrizations import FORMS

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = sorted((DOCS / "launch").glob("*.sh"))
MANIFESTS = sorted((DOCS / "launch").glob("*.yaml"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_launch_scripts_are_bash_and_ask_for_what_is_missing(script):
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    done = subprocess.run(["bash", script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0
    assert "the name of" in done.stderr


def executable(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_seed_asks_for_another_turn_when_its_time_is_over(number, requeued, tmp_path):
    """With a program in the place of Python that leaves with 143 when it is told to."""
    executable(tmp_path / "python", f"trap 'exit 143' TERM; touch {tmp_path / 'ready'}; while :; do sleep 0.05; done")
    executable(tmp_path / "scontrol", f'echo "$@" > {tmp_path / "asked"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "17"}
    with subprocess.Popen(["bash", DOCS / "launch" / "slurm_seeds.sh", "adding"], env=environment) as script:
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        script.send_signal(number)
        assert script.wait(60) == 143
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 17_3\n"


@pytest.mark.parametrize(("status", "turn", "requeued"), [(0, 0, False), (1, 0, True), (134, 99, True), (134, 100, False), (2, 0, False)])
def test_hosts_ask_for_another_turn_when_one_is_lost(status, turn, requeued, tmp_path):
    executable(tmp_path / "srun", f"exit {status}")
    executable(tmp_path / "scontrol", f'echo "$@" > {tmp_path / "asked"}')
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "17", "SLURM_RESTART_COUNT": str(turn)}
    assert subprocess.run(["bash", DOCS / "launch" / "slurm_hosts.sh", "wiki"], env=environment).returncode == status
    assert (tmp_path / "asked").exists() == requeued
    assert not requeued or (tmp_path / "asked").read_text() == "requeue 17\n"


def pod_specs(tree):
    """Everything in a manifest that has containers."""
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    own = [tree] if isinstance(tree, dict) and "containers" in tree else []
    return own + [spec for child in children for spec in pod_specs(child)]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_complete(path):
    """Every mount is a volume of its pod, and the command lines are those of experiments."""
    manifest = yaml.safe_load(path.read_text())
    assert {"apiVersion", "kind", "metadata", "spec"} == manifest.keys()
    pods = pod_specs(manifest)
    assert pods
    for pod in pods:
        (container,) = pod["containers"]
        assert {"name", "image"} <= container.keys()
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_the_command_of_the_job_set_is_one_run_over_all_its_pods():
    spec = yaml.safe_load((DOCS / "launch" / "jobset_hosts.yaml").read_text())
    (job,) = spec["spec"]["replicatedJobs"]
    pods = job["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    command = parse(WIKI, [word.replace("$(JOB_COMPLETION_INDEX)", "3") for word in container["args"]])
    assert container["command"][2] == "experiments.wiki"
    assert command.distributed.num_processes == pods["parallelism"] == pods["completions"] == 4
    host = f"{spec['metadata']['name']}-{job['name']}-0-0.{spec['metadata']['name']}:1234"
    assert command.distributed.coordinator_address == host


def test_the_command_of_the_ray_job_is_a_sweep():
    words = yaml.safe_load((DOCS / "launch" / "kuberay.yaml").read_text())["spec"]["entrypoint"].split()
    names, ours, others = split(words[3:], Options)
    assert (words[:3], names, others) == (["python", "-m", "experiments.sweep"], ["copy_memory", "adding"], [])
    assert parse_dataclass(Options, ours, "", "", Options()).engine == "ray"


def test_modules_and_files_that_are_named_exist():
    for path in [*DOCS.glob("*.md"), *SCRIPTS]:
        text = path.read_text()
        for name in re.findall(r"-m (experiments(?:\.\w+)?)\b", text):
            assert name == "experiments.NAME" or importlib.util.find_spec(name), f"{path.name} names {name}"
        for name in re.findall(r"\]\(([\w./]+)\)", text):
            assert (path.parent / name).exists(), f"{path.name} names {name}"


def test_every_parametrization_has_a_row():
    text = (DOCS / "parametrizations.md").read_text()
    for kind in FORMS:
        name = kind.removesuffix("_plus_diagonal")
        assert f"| `{kind}` |" in text or (f"`{name}`" in text and "`NAME_plus_diagonal`" in text), kind
